//! Where the processes of a cell listen.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use anyhow::Context as _;

use super::Stack;

/// Where nobody listens.
const NOBODY: &str = "nobody";

/// An address for each process.
pub(super) struct Addresses(BTreeMap<String, SocketAddr>);

impl Addresses {
    /// Ports that are free now. All are held until all are known, so that none comes twice.
    ///
    /// # Errors
    /// There are none.
    pub(super) fn free(stack: &Stack) -> anyhow::Result<Self> {
        let names = stack.all().map(|spec| spec.name.as_str()).chain([NOBODY]);
        let listen = |name: &str| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            anyhow::Ok((name.to_owned(), listener))
        };
        let held: Vec<_> = names.map(listen).collect::<Result<_, _>>().context("no free port")?;
        let address = |(name, listener): (String, TcpListener)| Ok((name, listener.local_addr()?));
        Ok(Self(held.into_iter().map(address).collect::<std::io::Result<_>>()?))
    }

    /// That of the process of this name.
    pub(super) fn of(&self, name: &str) -> SocketAddr {
        self.0[name]
    }

    /// An argument with addresses in it.
    pub(super) fn fill(&self, arg: &str) -> String {
        self.0.iter().fold(arg.to_owned(), |arg, (name, address)| {
            let arg = arg.replace(&format!("{{{name}}}"), &address.to_string());
            arg.replace(&format!("{{{name}.port}}"), &address.port().to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_name_addresses_and_ports() {
        let address: SocketAddr = "127.0.0.1:81".parse().unwrap();
        let addresses = Addresses([("a".into(), address)].into());
        assert_eq!(addresses.fill("http://{a}/x"), "http://127.0.0.1:81/x");
        assert_eq!(addresses.fill("{a.port},{b}"), "81,{b}");
    }
}
