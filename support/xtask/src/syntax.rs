//! What the checks ask of a Rust file: which paths and keywords its shipped code names, how long its
//! functions are, and which lines are tests.

mod imports;

use std::str::FromStr as _;

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, Block, ExprAsync, ExprClosure, ImplItemFn, Item, ItemFn, ItemMod, ItemUse, Path,
    Signature, TraitItemFn,
    token::Async,
    visit::{self, Visit},
};

use imports::{Aliases, imports};

/// A name and the line it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// A path joined with `::`, or a function's name.
    pub(crate) name: String,
    /// From 1.
    pub(crate) line: usize,
}

/// A function of shipped code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name and first line.
    pub(crate) at: Named,
    /// From `fn` to the closing brace.
    pub(crate) lines: usize,
}

/// What a file's shipped code (everything outside `#[cfg(test)]` and `#[test]`) is made of.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Paths, their first segment resolved through the file's `use` items.
    pub(crate) paths: Vec<Named>,
    /// Every `async`.
    pub(crate) asyncs: Vec<usize>,
    /// Every function with a body.
    pub(crate) functions: Vec<Function>,
    /// Lines inside test modules.
    pub(crate) test_lines: usize,
}

impl Outline {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not Rust.
    pub(crate) fn parse(text: &str) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let mut walk = Walk { aliases: Aliases::of(&file), outline: Self::default() };
        walk.visit_file(&file);
        Ok(walk.outline)
    }
}

/// Every identifier and keyword of a text, tests and macro arguments included; comments and strings
/// are not.
///
/// # Errors
/// The text has no Rust tokens.
pub(crate) fn words(text: &str) -> syn::Result<Vec<Named>> {
    let mut words = Vec::new();
    collect(TokenStream::from_str(text)?, &mut words);
    Ok(words)
}

fn collect(tokens: TokenStream, words: &mut Vec<Named>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), words),
            TokenTree::Ident(ident) => {
                words.push(Named { name: ident.to_string(), line: ident.span().start().line })
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let named_test =
            attribute.path().segments.last().is_some_and(|segment| segment.ident == "test");
        named_test
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn's enum is open, and few items are tests")]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

struct Walk {
    aliases: Aliases,
    outline: Outline,
}

impl Walk {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let end = body.brace_token.span.close().end().line;
        let at = Named { name: signature.ident.to_string(), line };
        self.outline.functions.push(Function { at, lines: end + 1 - line });
    }

    fn asynchronous(&mut self, token: Option<&Async>) {
        self.outline.asyncs.extend(token.map(|token| token.span.start().line));
    }

    /// Joins `a :: b :: c` in a macro's arguments, which the parser leaves as tokens.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = String::new();
        let mut line = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    path.push(':');
                }
                TokenTree::Ident(ident) => {
                    if !path.ends_with("::") {
                        self.path(&path, line);
                        path.clear();
                        line = ident.span().start().line;
                    }
                    path.push_str(&ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.path(&path, line);
                    path.clear();
                    self.tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.path(&path, line);
                    path.clear();
                }
            }
        }
        self.path(&path, line);
    }

    fn path(&mut self, path: &str, line: usize) {
        let path = path.trim_end_matches(':');
        if path == "async" {
            self.outline.asyncs.push(line);
        } else if !path.is_empty() {
            self.outline.paths.push(Named { name: self.aliases.resolve(path), line });
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        } else if let Item::Mod(ItemMod { content: Some((brace, _)), mod_token, .. }) = item {
            let lines = mod_token.span.start().line..=brace.span.close().end().line;
            self.outline.test_lines += lines.count();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.outline.paths.extend(imports(item).into_iter().map(|import| import.full));
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.asynchronous(signature.asyncness.as_ref());
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, expression: &'ast ExprAsync) {
        self.asynchronous(Some(&expression.async_token));
        visit::visit_expr_async(self, expression);
    }

    fn visit_expr_closure(&mut self, expression: &'ast ExprClosure) {
        self.asynchronous(expression.asyncness.as_ref());
        visit::visit_expr_closure(self, expression);
    }

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        let line = path.segments.first().map_or(1, |it| it.ident.span().start().line);
        self.path(&segments.join("::"), line);
        visit::visit_path(self, path);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.tokens(tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let outline = Outline::parse(text).expect("Rust");
        outline.paths.into_iter().map(|named| named.name).collect()
    }

    #[test]
    fn imports_are_flattened_and_followed() {
        let found = paths(
            "use std::{fs as files, time::{self, Instant}};\nfn f() { time::Now(); files::read; Instant::now() }",
        );
        for wanted in [
            "std::fs",
            "std::time",
            "std::time::Instant",
            "std::time::Now",
            "std::fs::read",
            "std::time::Instant::now",
        ] {
            assert!(found.iter().any(|path| path == wanted), "{wanted} not in {found:?}");
        }
    }

    #[test]
    fn arguments_of_macros_are_seen() {
        assert!(
            paths("fn f() { g!(\"{}\", std::env::var(x)); }").contains(&"std::env::var".into())
        );
        let outline = Outline::parse("fn f() { g!(async { 1 }); }").expect("Rust");
        assert_eq!(outline.asyncs, [1]);
    }

    #[test]
    fn tests_are_left_out() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n#[test]\nfn g() { std::env::args(); }";
        let outline = Outline::parse(text).expect("Rust");
        assert!(outline.paths.is_empty(), "{:?}", outline.paths);
        assert_eq!(outline.test_lines, 3);
        assert_eq!(outline.functions.len(), 1);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let text = "impl A {\n    /// Says.\n    pub async fn f(\n        x: u8,\n    ) {\n        x\n    }\n}";
        let outline = Outline::parse(text).expect("Rust");
        let at = Named { name: "f".into(), line: 3 };
        assert_eq!(outline.functions, [Function { at, lines: 5 }]);
        assert_eq!(outline.asyncs, [3]);
    }

    #[test]
    fn words_are_code_only() {
        let names: Vec<_> =
            words("// one\nlet two = m!(three, \"four\");").expect("tokens").into_iter().collect();
        let names: Vec<_> = names.iter().map(|word| (word.name.as_str(), word.line)).collect();
        assert_eq!(names, [("let", 2), ("two", 2), ("m", 2), ("three", 2)]);
    }
}
