//! What to start.

use crate::process::Conditions;

/// What to start.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Further arguments of every engine.
    pub engine: Vec<String>,
    /// Further arguments of admission.
    pub admission: Vec<String>,
    /// Further arguments of every gateway.
    pub gateway: Vec<String>,
    /// How many engines besides the one that serves while it can. Admission watches them too.
    pub spares: usize,
    /// How many gateways.
    pub gateways: usize,
    /// Whether the processes reach each other, spares apart, through [`Links`](crate::Links).
    pub linked: bool,
    /// What every process is started under.
    pub conditions: Conditions,
}

impl Spec {
    /// One gateway over a mock whose steps take `base_us` and `decode_us` for each sequence, and
    /// whose prompts are free.
    #[must_use]
    pub fn mock(base_us: u32, decode_us: u32) -> Self {
        let engine = ["--backend", "mock", "--mock-prefill-us", "1", "--mock-base-us"];
        let mut engine: Vec<String> = engine.map(String::from).into();
        engine.extend([base_us.to_string(), "--mock-decode-us".into(), decode_us.to_string()]);
        Self::over(engine)
    }

    /// One gateway over the real default model.
    #[must_use]
    pub fn model() -> Self {
        let root = env!("CARGO_MANIFEST_DIR");
        let fetched = format!("{root}/../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
        let path = std::env::var("CADENCE_TEST_MODEL").unwrap_or(fetched);
        assert!(std::path::Path::new(&path).exists(), "{path} is not there; run `make model`");
        let engine =
            ["--model", &path, "--slots", "8", "--context-tokens", "1024", "--threads", "1"];
        Self::over(engine.map(String::from).into())
    }

    fn over(engine: Vec<String>) -> Self {
        Self {
            engine,
            admission: Vec::new(),
            gateway: Vec::new(),
            spares: 0,
            gateways: 1,
            linked: false,
            conditions: Conditions::default(),
        }
    }

    /// Adds arguments of the engine.
    #[must_use]
    pub fn engine(mut self, args: &[&str]) -> Self {
        self.engine.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Adds arguments of admission.
    #[must_use]
    pub fn admission(mut self, args: &[&str]) -> Self {
        self.admission.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Adds arguments of every gateway.
    #[must_use]
    pub fn gateway(mut self, args: &[&str]) -> Self {
        self.gateway.extend(args.iter().map(ToString::to_string));
        self
    }

    /// Further engines, like the first.
    #[must_use]
    pub fn spares(mut self, count: usize) -> Self {
        self.spares = count;
        self
    }

    /// Several gateways.
    #[must_use]
    pub fn gateways(mut self, count: usize) -> Self {
        self.gateways = count;
        self
    }

    /// The processes reach each other through links that can be cut.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Every process is started under these conditions.
    #[must_use]
    pub fn under(mut self, conditions: Conditions) -> Self {
        self.conditions = conditions;
        self
    }
}
