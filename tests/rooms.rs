//! The rooms have no circles: which file of a crate uses which, read from the source text.
//!
//! An arrow goes from a file to the file that defines what it names, by `use` or by a path in its
//! code, tests left out. Re-exports are followed to the definition and are no arrows themselves,
//! nor is `mod`. What a test of names can not see are calls of methods and what `build.rs` writes.
//! This binary reads text alone and links nothing of the library.

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The crates whose files may form no circle, with the files that they begin at.
const CRATES: [&str; 8] = [
    "words/src/lib.rs",
    "catalog/src/lib.rs",
    "passes/src/lib.rs",
    "microkernels/src/lib.rs",
    "runtime/src/lib.rs",
    "models/src/lib.rs",
    "cli/src/main.rs",
    "derive/src/lib.rs",
];

/// How many circles the files of `src/` form: the tensor and the dispatcher that knows it, which
/// starts the registrations above; and a storage's borrow state and queue. A number that may only
/// fall.
const CIRCLES: usize = 2;

/// The rooms of `src/`, each of which may use those before it.
const ROOMS: [&str; 16] = [
    "tensor",
    "dispatch",
    "ops",
    "modes",
    "autograd",
    "transforms",
    "files",
    "methods",
    "cuda",
    "compile",
    "control_flow",
    "nn",
    "optim",
    "data",
    "program",
    "pt2",
];

/// How often a file of `src/` uses a file of a later room: a number that may only fall. The
/// dispatcher starts the registrations of operators, modes, transforms and GPUs.
const UPWARD: usize = 4;

#[test]
fn files_form_no_circles() {
    let mut report = String::new();
    for start in CRATES {
        let sources = Sources::read(start);
        for circle in sources.circles() {
            sources.describe(&circle, &mut report);
        }
    }
    assert!(report.is_empty(), "files that use each other:\n{report}");
}

#[test]
fn files_of_the_library_form_few_circles() {
    let sources = Sources::read("src/lib.rs");
    let mut report = String::new();
    let circles = sources.circles();
    for circle in &circles {
        sources.describe(circle, &mut report);
    }
    let count = circles.len();
    assert_eq!(count, CIRCLES, "circles in src/; lower the number if it fell:\n{report}");
}

#[test]
fn rooms_of_the_library_use_those_below() {
    let sources = Sources::read("src/lib.rs");
    let room = |file: usize| {
        let name = sources.name(file);
        let inside = name.strip_prefix("src/")?;
        let first = inside.split(['/', '.']).next()?;
        ROOMS.iter().position(|r| *r == first)
    };
    let mut count = 0;
    let mut report = String::new();
    for ((from, to), places) in &sources.arrows {
        if let (Some(a), Some(b)) = (room(*from), room(*to))
            && a < b
        {
            count += 1;
            writeln!(report, "{} -> {}", sources.name(*from), sources.name(*to)).unwrap();
            for place in places {
                writeln!(report, "    {place}").unwrap();
            }
        }
    }
    println!("{report}{count} arrows go up");
    assert_eq!(
        count, UPWARD,
        "files of src/ that use a later room; lower the number if it fell:\n{report}"
    );
}

/// A name that `use` brings into a module, and what it stands for.
struct Import {
    name: String,
    target: Vec<String>,
    line: usize,
    public: bool,
}

/// A module: a file, or a part of one.
#[derive(Default)]
struct Module {
    file: usize,
    defines: BTreeSet<String>,
    imports: Vec<Import>,
    globs: Vec<Import>,
    /// Paths in code with the lines that they stand in.
    paths: Vec<(Vec<String>, usize)>,
    /// Single names in code, which a glob may have brought.
    names: BTreeMap<String, usize>,
}

/// What a name means in a module.
type Known = HashMap<(Vec<String>, String), Option<Target>>;

/// The files of one crate.
#[derive(Default)]
struct Sources {
    files: Vec<PathBuf>,
    modules: HashMap<Vec<String>, Module>,
    arrows: BTreeMap<(usize, usize), BTreeSet<String>>,
    /// What names were found to mean.
    known: RefCell<Known>,
}

/// What a path leads to.
#[derive(Clone, PartialEq)]
enum Target {
    Module(Vec<String>),
    Item(usize),
}

impl Sources {
    fn read(start: &str) -> Sources {
        let mut sources = Sources::default();
        let start = Path::new(start);
        let folder = start.parent().expect("a file of a folder");
        sources.read_file(start.to_path_buf(), folder.to_path_buf(), Vec::new());
        sources.draw_arrows();
        sources
    }

    fn name(&self, file: usize) -> String {
        self.files[file].display().to_string()
    }

    /// Reads a file as a module whose children lie in `folder`.
    fn read_file(&mut self, path: PathBuf, folder: PathBuf, module: Vec<String>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(root.join(&path))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let file = self.files.len();
        self.files.push(path);
        self.read_module(tokens, file, &folder, module);
    }

    fn read_module(&mut self, tokens: TokenStream, file: usize, folder: &Path, path: Vec<String>) {
        let mut module = Module { file, ..Module::default() };
        let mut children = Vec::new();
        for item in items(tokens) {
            if item.test {
                continue;
            }
            let words: Vec<Option<String>> = item.tokens.iter().map(word).collect();
            let word_at = |i: usize| words.get(i).and_then(|w| w.as_deref());
            match word_at(0) {
                Some("mod") => {
                    let name = word_at(1).expect("a module has a name").to_string();
                    let body = item.tokens.get(2).and_then(|t| match t {
                        TokenTree::Group(g) => Some(g.stream()),
                        _ => None,
                    });
                    children.push((name, body, item.path));
                }
                Some("use") => read_use(&item.tokens, item.public, &mut module),
                _ => {
                    for (at, kind) in words.iter().enumerate() {
                        const KINDS: [&str; 9] = [
                            "fn",
                            "struct",
                            "enum",
                            "trait",
                            "type",
                            "const",
                            "static",
                            "union",
                            "macro_rules",
                        ];
                        if kind.as_deref().is_some_and(|k| KINDS.contains(&k)) {
                            let skip = usize::from(kind.as_deref() == Some("macro_rules"));
                            if let Some(name) = word_at(at + 1 + skip)
                                && !KINDS.contains(&name)
                            {
                                module.defines.insert(name.to_string());
                            }
                            if kind.as_deref() != Some("const") || word_at(at + 1) != Some("fn") {
                                break;
                            }
                        }
                        if kind.as_deref() == Some("impl") {
                            break;
                        }
                    }
                    read_code(&item.tokens, &mut module);
                }
            }
        }
        self.modules.insert(path.clone(), module);
        for (name, body, at) in children {
            let inner: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
            if let Some(body) = body {
                self.read_module(body, file, &folder.join(&name), inner);
                continue;
            }
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let flat = match &at {
                Some(at) => self.files[file].parent().expect("a folder").join(at),
                None => folder.join(format!("{name}.rs")),
            };
            let nested = folder.join(&name).join("mod.rs");
            let found = if root.join(&flat).exists() { flat } else { nested };
            self.read_file(found, folder.join(&name), inner);
        }
    }

    /// What an absolute path (without `crate`) leads to; `None` outside the crate.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Target> {
        if depth > 16 {
            return None;
        }
        let mut module = Vec::new();
        for (at, name) in path.iter().enumerate() {
            let mut next = module.clone();
            next.push(name.clone());
            if self.modules.contains_key(&next) {
                module = next;
                continue;
            }
            let here = &self.modules[&module];
            let rest = &path[at + 1..];
            return match self.named(&module, name, depth) {
                Some(Target::Module(found)) => {
                    let whole: Vec<String> = found.iter().chain(rest).cloned().collect();
                    self.resolve(&whole, depth + 1)
                }
                Some(item) => Some(item),
                // a name that a macro makes, or one from another crate
                None if here.imports.iter().any(|i| i.name == *name) => None,
                None => Some(Target::Item(here.file)),
            };
        }
        Some(Target::Module(module))
    }

    /// What a name means in a module, if that is of this crate and known.
    fn named(&self, module: &[String], name: &str, depth: usize) -> Option<Target> {
        let key = (module.to_vec(), name.to_string());
        if let Some(known) = self.known.borrow().get(&key) {
            return known.clone();
        }
        // modules that import each other's names in a circle find nothing there
        self.known.borrow_mut().insert(key.clone(), None);
        let found = self.find(module, name, depth);
        self.known.borrow_mut().insert(key, found.clone());
        found
    }

    fn find(&self, module: &[String], name: &str, depth: usize) -> Option<Target> {
        if depth > 16 {
            return None;
        }
        let here = self.modules.get(module)?;
        if here.defines.contains(name) {
            return Some(Target::Item(here.file));
        }
        let mut child = module.to_vec();
        child.push(name.to_string());
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if let Some(import) = here.imports.iter().find(|i| i.name == name) {
            let target = self.absolute(&import.target, module, depth + 1)?;
            return self.resolve(&target, depth + 1);
        }
        here.globs.iter().find_map(|glob| {
            let target = self.absolute(&glob.target, module, depth + 1)?;
            match self.resolve(&target, depth + 1)? {
                Target::Module(from) if from != module => self.named(&from, name, depth + 1),
                _ => None,
            }
        })
    }

    /// A path as written in a module, from the root of the crate; `None` where it leads outside.
    fn absolute(&self, path: &[String], module: &[String], depth: usize) -> Option<Vec<String>> {
        let mut at = module.to_vec();
        let mut rest = path;
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {}
            Some(first) => {
                let mut child = module.to_vec();
                child.push(first.to_string());
                if self.modules.contains_key(&child) {
                    return Some(child.into_iter().chain(path[1..].to_vec()).collect());
                }
                return match self.named(module, first, depth + 1)? {
                    Target::Module(m) => Some(m.into_iter().chain(path[1..].to_vec()).collect()),
                    // an item's own name leads to its file by the imports
                    Target::Item(_) => None,
                };
            }
            None => return None,
        }
        while rest.first().is_some_and(|s| s == "super") {
            at.pop();
            rest = &rest[1..];
        }
        Some(at.into_iter().chain(rest.to_vec()).collect())
    }

    fn draw_arrows(&mut self) {
        let mut found: Vec<(usize, usize, String)> = Vec::new();
        for (path, module) in &self.modules {
            let mut arrow = |target: Option<Target>, text: String, line: usize| {
                if let Some(Target::Item(file)) = target
                    && file != module.file
                {
                    let from = self.files[module.file].display();
                    found.push((module.file, file, format!("{from}:{line}: {text}")));
                }
            };
            for import in module.imports.iter().filter(|i| !i.public) {
                let target = self.absolute(&import.target, path, 0);
                let target = target.and_then(|t| self.resolve(&t, 0));
                arrow(target, import.target.join("::"), import.line);
            }
            for (used, line) in &module.paths {
                let target = self.absolute(used, path, 0);
                let target = target.and_then(|t| self.resolve(&t, 0));
                arrow(target, used.join("::"), *line);
            }
            for glob in module.globs.iter().filter(|g| !g.public) {
                let target = self.absolute(&glob.target, path, 0);
                match target.and_then(|t| self.resolve(&t, 0)) {
                    Some(Target::Module(from)) => {
                        for (name, line) in &module.names {
                            if !module.defines.contains(name) {
                                arrow(self.named(&from, name, 0), name.clone(), *line);
                            }
                        }
                    }
                    item => arrow(item, glob.target.join("::"), glob.line),
                }
            }
        }
        for (from, to, place) in found {
            self.arrows.entry((from, to)).or_default().insert(place);
        }
    }

    /// Sets of files each of which reaches all others.
    fn circles(&self) -> Vec<Vec<usize>> {
        let arrows = self.arrows.keys().map(|(a, b)| (*a as u32, *b as u32));
        let graph = DiGraph::<(), ()>::from_edges(arrows);
        let mut circles: Vec<Vec<usize>> = tarjan_scc(&graph)
            .into_iter()
            .map(|c| c.into_iter().map(|n| n.index()).collect())
            .collect();
        circles.retain(|c| c.len() > 1);
        circles
    }

    fn describe(&self, circle: &[usize], out: &mut String) {
        let names: Vec<String> = circle.iter().map(|f| self.name(*f)).collect();
        writeln!(out, "circle of {}: {}", names.len(), names.join(", ")).unwrap();
        for ((from, to), places) in &self.arrows {
            if circle.contains(from) && circle.contains(to) {
                writeln!(out, "  -> {}", self.name(*to)).unwrap();
                for place in places {
                    writeln!(out, "       {place}").unwrap();
                }
            }
        }
    }
}

/// An item of a module, without its attributes and visibility.
struct Item {
    test: bool,
    public: bool,
    path: Option<String>,
    tokens: Vec<TokenTree>,
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(i) => Some(i.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<TokenStream> {
    match token {
        Some(TokenTree::Group(g)) if g.delimiter() == delimiter => Some(g.stream()),
        _ => None,
    }
}

/// Cuts a module's text into items: each ends with `;` or with the first braces.
fn items(tokens: TokenStream) -> Vec<Item> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut item = Item { test: false, public: false, path: None, tokens: Vec::new() };
        while is_punct(tokens.get(at), '#') {
            let inner = is_punct(tokens.get(at + 1), '!');
            at += 1 + usize::from(inner);
            let attribute = group(tokens.get(at), Delimiter::Bracket).expect("an attribute");
            let words: Vec<TokenTree> = attribute.into_iter().collect();
            match words.first().and_then(word).as_deref() {
                Some("cfg") => item.test |= names_test(&words[1..]),
                Some("path") => {
                    let text = words.last().expect("a path").to_string();
                    item.path = Some(text.trim_matches('"').to_string());
                }
                _ => {}
            }
            at += 1;
        }
        if tokens.get(at).and_then(word).as_deref() == Some("pub") {
            item.public = true;
            at += 1;
            at += usize::from(group(tokens.get(at), Delimiter::Parenthesis).is_some());
        }
        let is_use = tokens.get(at).and_then(word).as_deref() == Some("use");
        // `const X: T = { ... };` goes on to its `;`
        let mut value = is_use;
        while let Some(token) = tokens.get(at) {
            at += 1;
            item.tokens.push(token.clone());
            if is_punct(Some(token), '=') {
                value = true;
            }
            let braces = group(Some(token), Delimiter::Brace).is_some();
            if is_punct(Some(token), ';') || braces && !value {
                break;
            }
        }
        out.push(item);
    }
    out
}

/// Whether a `cfg` asks for tests.
fn names_test(tokens: &[TokenTree]) -> bool {
    let mut negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(i) if i == "test" => return true,
            TokenTree::Ident(i) => negated = i == "not" || i == "any",
            TokenTree::Group(g) if !negated => {
                let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                if names_test(&inner) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Reads `use a::{b, c as d, e::*};`.
fn read_use(tokens: &[TokenTree], public: bool, out: &mut Module) {
    read_tree(&tokens[1..], &[], public, out);
}

fn read_tree(tokens: &[TokenTree], prefix: &[String], public: bool, out: &mut Module) {
    let mut path = prefix.to_vec();
    let mut name = None;
    let mut line = 0;
    let mut ended = false;
    let mut renamed = false;
    for token in tokens {
        let start = token.span().start().line;
        match token {
            TokenTree::Ident(i) if i == "as" => renamed = true,
            TokenTree::Ident(i) if renamed => name = Some(i.to_string()),
            TokenTree::Ident(i) => {
                line = start;
                path.push(i.to_string());
            }
            TokenTree::Punct(p) if p.as_char() == '*' => {
                out.globs.push(Import {
                    name: "*".into(),
                    target: path.clone(),
                    line: start,
                    public,
                });
                ended = true;
            }
            TokenTree::Group(g) => {
                let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                for part in inner.split(|t| is_punct(Some(t), ',')) {
                    if !part.is_empty() {
                        read_tree(part, &path, public, out);
                    }
                }
                ended = true;
            }
            _ => {}
        }
    }
    if ended || path.is_empty() {
        return;
    }
    if path.len() > 1 && path.last().is_some_and(|l| l == "self") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned()).expect("not empty");
    out.imports.push(Import { name, target: path, line, public });
}

/// Collects the paths and names of code, and the `use` of function bodies.
fn read_code(tokens: &[TokenTree], out: &mut Module) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(g) => {
                let inner: Vec<TokenTree> = g.stream().into_iter().collect();
                read_code(&inner, out);
                at += 1;
            }
            TokenTree::Ident(i) if i == "pub" => {
                at += 1;
                at += usize::from(group(tokens.get(at), Delimiter::Parenthesis).is_some());
            }
            TokenTree::Ident(i) if i == "use" => {
                let rest = &tokens[at..];
                let end = rest.iter().position(|t| is_punct(Some(t), ';'));
                let end = end.unwrap_or(rest.len());
                // `use<'a>` is a bound
                if !is_punct(rest.get(1), '<') {
                    read_use(&rest[..end], false, out);
                    at += end;
                }
                at += 1;
            }
            TokenTree::Ident(i) => {
                let line = i.span().start().line;
                let mut path = vec![i.to_string()];
                // a field or a method, or what a macro was given
                let other = at > 0
                    && (is_punct(tokens.get(at - 1), '.')
                        || is_punct(tokens.get(at - 1), '$') && i != "crate");
                at += 1;
                while is_punct(tokens.get(at), ':')
                    && is_punct(tokens.get(at + 1), ':')
                    && let Some(next) = tokens.get(at + 2).and_then(word)
                {
                    path.push(next);
                    at += 3;
                }
                if other {
                    continue;
                }
                out.names.entry(path[0].clone()).or_insert(line);
                if path.len() > 1 {
                    out.paths.push((path, line));
                }
            }
            _ => at += 1,
        }
    }
}
