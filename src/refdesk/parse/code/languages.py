"""The languages that are read: their grammars, queries and file names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from refdesk.text import word_set, word_table


@dataclass(frozen=True, slots=True)
class Language:
    """One row: how a language is read."""

    id: str
    grammar: str
    queries: tuple[str, ...]  # files of queries/, joined
    imports: str  # how import statements are read: a name of imports.READERS
    test_prefix: str = ""  # functions named so are tests
    has_conditionals: bool = False  # lines of #if, #else, #endif
    no_calls: frozenset[str] = frozenset()  # what looks like a call and is a keyword


def _row(
    id_: str,
    imports: str = "",
    *,
    queries: tuple[str, ...] = (),
    test: str = "",
    skip: str = "",
    conditionals: bool = False,
    grammar: str = "",
) -> Language:
    return Language(id_, grammar or id_, queries or (id_,), imports, test, conditionals, word_set(skip))


_ELIXIR_KEYWORDS = """
def defp defmacro defmacrop defmodule defprotocol defimpl defstruct defexception defguard defguardp defdelegate doc
moduledoc typedoc spec type typep opaque callback behaviour impl alias import use require test describe quote unquote
"""

LANGUAGES: Mapping[str, Language] = {
    row.id: row
    for row in (
        _row("python", "python", test="test"),
        _row("javascript", "javascript", queries=("ecmascript", "javascript"), skip="require"),
        _row("typescript", "javascript", queries=("ecmascript", "typescript"), skip="require"),
        _row("tsx", "javascript", queries=("ecmascript", "typescript", "jsx"), skip="require"),
        _row("vue", "javascript", queries=("ecmascript", "typescript"), skip="require", grammar="typescript"),
        _row("svelte", "javascript", queries=("ecmascript", "typescript"), skip="require", grammar="typescript"),
        _row("go", "go", test="Test"),
        _row("rust", "rust"),
        _row("swift", "swift", test="test", skip="defer", conditionals=True),
        _row("java", "jvm"),
        _row("kotlin", "jvm"),
        _row("scala", "jvm"),
        _row("csharp", "csharp", conditionals=True),
        _row("c", "include", conditionals=True),
        _row("cpp", "include", queries=("c", "cpp"), conditionals=True),
        _row("objc", "include", queries=("c", "objc"), test="test", conditionals=True),
        _row(
            "ruby",
            "quoted",
            test="test_",
            skip="require require_relative attr_reader attr_accessor attr_writer include extend prepend private",
        ),
        _row("php", "php", test="test"),
        _row(
            "bash", "shell", skip="source set export local echo printf cd return exit test true false shift alias unset"
        ),
        _row("lua", "quoted", skip="require"),
        _row("elixir", "elixir", skip=_ELIXIR_KEYWORDS),
        _row("erlang"),
        _row("ocaml"),
        _row("ocaml_interface"),
        _row("clojure", skip="ns def defn defn- defonce defmacro defrecord deftype defprotocol let if when do fn cond"),
        _row("gleam"),
        _row("sql"),
        _row("haskell"),
        _row("dart", "quoted"),
        _row("zig"),
        _row("julia"),
        _row("proto", "include"),
        _row("r", skip="library require source c list"),
        _row("make"),
        _row("cmake", skip="set option if else elseif endif foreach endforeach"),
        _row("terraform", queries=("hcl",)),
        _row("hcl"),
    )
}


# Languages without a row above are cut by their grammar's top-level nodes.
EXTENSIONS: Mapping[str, str] = word_table(
    """
    python: py pyi pyw;  javascript: js mjs cjs jsx;  typescript: ts mts cts;  tsx: tsx;  go: go;  rust: rs;
    swift: swift swiftinterface;  java: java;  kotlin: kt kts;  c: c h;
    cpp: cc cpp cxx c++ hh hpp hxx h++ ipp inl tpp cppm ixx;  objc: m mm;  csharp: cs csx;
    ruby: rb rake gemspec ru podspec;  php: php phtml php5 php7;  scala: scala sc sbt;  bash: sh bash zsh ksh bats;
    lua: lua;  elixir: ex exs;  sql: sql ddl dml psql;  haskell: hs;  dart: dart;  zig: zig;  ocaml: ml;
    ocaml_interface: mli;  julia: jl;  r: r;  perl: pl pm;  groovy: groovy gradle gvy;  clojure: clj cljs cljc edn;
    erlang: erl hrl;  powershell: ps1 psm1 psd1;  vue: vue;  svelte: svelte;  astro: astro;  fsharp: fs fsx fsi;
    elm: elm;  gleam: gleam;  nim: nim nims;  d: d;  v: vv;  ada: adb ads;  fortran: f f90 f95 f03 f08 for;
    pascal: pas pp dpr;  matlab: mlx;  solidity: sol;  verilog: v sv svh vh;  vhdl: vhd vhdl;  asm: s asm;
    cuda: cu cuh;  glsl: glsl vert frag geom comp tesc tese;  hlsl: hlsl fx;  wgsl: wgsl;  proto: proto;
    thrift: thrift;  capnp: capnp;  graphql: graphql gql graphqls;  prisma: prisma;  smithy: smithy;  css: css;
    scss: scss;  nix: nix;  terraform: tf tfvars;  hcl: hcl nomad;  bicep: bicep;  cmake: cmake;  make: mk mak;
    starlark: bzl star bazel;  vim: vim;  fish: fish;  tcl: tcl;  scheme: scm ss;  racket: rkt;
    commonlisp: lisp lsp cl;  elisp: el;  fennel: fnl;  purescript: purs;  gdscript: gd;  haxe: hx;  hack: hack;
    odin: odin;  pony: pony;  puppet: epp;  rego: rego;  sparql: rq sparql;  qmljs: qml;  typst: typ;  twig: twig;
    wat: wat wast;  cairo: cairo;  arduino: ino;  luau: luau;  tablegen: td;  llvm: ll;  agda: agda;
    apex: cls trigger apex;  jsonnet: jsonnet libsonnet;
    """
)
FILENAMES: Mapping[str, str] = word_table(
    """
    make: Makefile makefile GNUmakefile;  cmake: CMakeLists.txt;  dockerfile: Dockerfile Containerfile;
    ruby: Rakefile Gemfile Podfile Fastfile Vagrantfile;  groovy: Jenkinsfile;  starlark: BUILD WORKSPACE;
    python: SConstruct SConscript;  meson: meson.build meson_options.txt;
    bash: .bashrc .bash_profile .zshrc .profile PKGBUILD;  kconfig: Kconfig;  gomod: go.mod;  erlang: rebar.config;
    """
)
_INTERPRETERS = word_table(
    """
    bash: sh bash zsh dash ksh;  python: python pypy;  javascript: node;  typescript: deno bun;  ruby: ruby;
    perl: perl;  php: php;  lua: lua;  swift: swift;  elixir: elixir;  groovy: groovy;  fish: fish;  powershell: pwsh;
    erlang: escript;  r: rscript;
    """
)

_SHEBANG = re.compile(r"#!\s*(?:/\S*/)?(?:env\s+(?:-S\s+)?)?([A-Za-z]+)")

# Each looks at a character a bounded number of times, whatever the text: an open comment reaches to the end.
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_OBJC_HEADER = re.compile(r"^[ \t]*(?:@interface|@protocol|@class|#import|NS_ASSUME)", re.MULTILINE)
_CPP_HEADER = re.compile(
    r"^[ \t]*(?:namespace\b|template\s*<|class\s+\w+[^;{:]{0,200}[{:]|using\s|public:|private:)|\bstd::", re.MULTILINE
)


def language_of(path: str, head: str = "") -> str:
    """The language of a file by its name and its text's start, "" when unknown.

    Of a header what is not in comments decides, which may come late: give all of it.
    """
    name = path.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    known = FILENAMES.get(name) or EXTENSIONS.get(extension)
    if extension == "h" and head:
        head = _COMMENT.sub("", head)
        return "objc" if _OBJC_HEADER.search(head) else "cpp" if _CPP_HEADER.search(head) else "c"
    if known or not head.startswith("#!"):
        return known or ""
    interpreter = _SHEBANG.match(head)
    return _INTERPRETERS.get(interpreter[1].lower(), "") if interpreter else ""
