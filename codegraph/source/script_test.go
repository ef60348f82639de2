package source_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// importKinds are the names that the tests use for the kinds of imports.
var importKinds = map[source.ImportKind]string{
	source.Plain: "plain", source.TypeOnly: "type", source.Reexport: "reexport", source.Dynamic: "dynamic", source.Mock: "mock",
}

// importsOf writes imports as kind, path and names, one a line.
func importsOf(f *source.Facts) (lines []string) {
	for _, i := range f.Imports {
		var line strings.Builder
		line.WriteString(importKinds[i.Kind] + " " + i.Path)
		for _, n := range i.Names {
			line.WriteString(" " + n.Name)
			if n.As != "" && n.As != n.Name {
				line.WriteString(">" + n.As)
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

func TestScriptImports(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{`import "a"`, "plain a"},
		{`import a from "a"; import b, {c} from 'b'; import d, * as e from "d"`, "plain a default>a; plain b default>b c; plain d default>d *>e"},
		{`import {a as b, type C, default as D, "x-y" as z} from "x"`, "plain x a>b C default>D x-y>z"},
		{`import {type A, type B as C} from "x"`, "type x A B>C"},
		{`import type A from "a"; import type {B} from "b"; import type * as C from "c"`, "type a default>A; type b B; type c *>C"},
		{`import type from "a"; import type, {b} from "b"; import type from from "c"`, "plain a default>type; plain b default>type b; type c default>from"},
		{`import {type} from "a"; import {type as} from "b"; import {type as as} from "c"; import {type as as as} from "d"`, "plain a type; type b as; plain c type>as; type d as"},
		{`import defer * as a from "a"; import a from "b" with {type: "json"}`, "plain a *>a; plain b default>a"},
		{`import a = require("a"); import type b = require("b"); import c = d.e; export import f = require("f")`, "plain a *>a; type b *>b; plain f *>f"},
		{`export * from "a"; export * as b from "b"; export {c, d as e, default} from "c"; export type {f} from "f"; export type * from "g"`,
			"reexport a *; reexport b *; reexport c c d default; reexport f f; reexport g *"},
		{`const a = require("a"), {b, c: d, ...e} = require('b'); let f = require("f").g; require("h", 1); x.require("i"); require("j" + k); require(l)`,
			"plain a *>a; plain b b c>d *>e; plain f g>f; plain h"},
		{`const {a, b = 1, c: {d}} = await import("a"); import("b").then(m => m.x); import("c", {with: {}}); import("d" + e); import.meta.url; x.import("y")`,
			"dynamic a a b c; dynamic b; dynamic c"},
		{"import(`a`); import(`b${c}`); require(`d`)", "dynamic a; plain d"},
		{`let a: import("a").T, b: typeof import("b"), c: import("c").N.M; f(x as import("d").D)`, "type a T; type b; type c N; type d D"},
		{`jest.mock("a", () => ({})); vi.mock('b'); jest.requireActual<typeof import("c")>("d"); vi.fn("e")`, "mock a; mock b; type c; mock d"},
		{"/// <reference path=\"a.ts\" />\n/// <reference types='b'/>\n/// <reference lib=\"dom\"/>\n// import 'x'\n", "type ./a.ts; type b"},
		{"#!/usr/bin/env node\nimport 'a'", "plain a"},
		{`declare module "x" { import a from "a"; export * from "b" } declare global { import("c") }`, "plain a default>a; reexport b *; dynamic c"},
		{"const s = `import 'x' ${`${a}` + require('a')} import 'y'`; import 'b'", "plain a; plain b"},
		{`a = b / require("a") / c; /require("x")/.test(d); if (e) /"/.test(f); x = {} / require("b"); y = /[/"]/g; import "c"`, "plain a; plain b; plain c"},
		{`const a = <div title="it's" b={<i>can't {require("a")}</i>}>don't import "x" {'}'} <br/> </div>; import "b"`, "plain a; plain b"},
		{`const f = <T,>(a: T) => a, g = <T extends U>(b) => b, h = <string>i, j = <T>(k: T) => k; import "a"`, "plain a"},
		{`f(<></>, <A.B x/>, <C<D> e="'"/>, <ns:tag data-x="import 'y'">'</ns:tag>); import "a"`, "plain a"},
		{`const a = x!/2; const b = i++ / 2 + '/'; require("a")`, "plain a"},
		{"const a = 'not closed\nimport 'b'\nconst c = \"not closed", "plain b"},
		{`import {a from "b"; import "c"; import d "e"; export {f} "g"; import from; import "h"`, "plain c; plain h"},
		{`class A { import() {} export = 1; require(a) {} } ({import: 1, export: 2}).import; import "a"`, "plain a"},
		{`module.exports = require("a"); exports.b = require("b")`, "reexport a * default; reexport b *"},
		{"/* import 'x' */ import /* a */ b /* c */ from // d\n 'b'", "plain b default>b"},
		{`import "a`, ""},
		{`!function(e){var t=r("x");e.exports=require("a")}(this),require("b")`, "reexport a * default; plain b"},
	} {
		got := strings.Join(importsOf(source.Scan(source.TypeScript, []byte(test.src), source.All)), "; ")
		assert.Equal(t, test.want, got, test.src)
		only := strings.Join(importsOf(source.Scan(source.TypeScript, []byte(test.src), source.ImportsOnly)), "; ")
		assert.Equal(t, test.want, only, test.src)
	}
}

func TestScriptImportStandsThere(t *testing.T) {
	src := "import a from 'some/path'; require(\"x\"); /// <reference path=\"y.ts\"/>\n"
	f := source.Scan(source.TypeScript, []byte(src), source.ImportsOnly)
	require.Len(t, f.Imports, 3)
	for i, want := range []string{"some/path", "x", "y.ts"} {
		assert.Equal(t, want, src[f.Imports[i].At.Start:f.Imports[i].At.End])
	}
}

func TestScriptExports(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{`export * from "a"; export * as n from "b"; export {c as d} from "c"`, "* * 0; n * 1; d c 2"},
		{`import {a as b} from "a"; export {b as c, d}; export default b`, "c a 0; d d -1; default a 0"},
		{`function f() {} export {f}; export {f as g}; export default f`, "g f -1; default f -1"},
		{`export default class A {}`, "default A -1"},
		{`export = A`, "default A -1"},
		{`const a = require("a"); module.exports = {a, b: c, d() {}}; exports.e = g`, "d default -1; a * 0; b c -1; e g -1"},
		{`module.exports = require("a"); exports.b = require("b")`, "* * 0; default default 0; b * 1"},
	} {
		var got []string
		for _, e := range source.Scan(source.TypeScript, []byte(test.src), source.All).Exports {
			got = append(got, fmt.Sprintf("%s %s %d", e.Name, e.Local, e.Import))
		}
		assert.Equal(t, test.want, strings.Join(got, "; "), test.src)
	}
}

func TestScriptDecls(t *testing.T) {
	kinds := []string{"func", "method", "type", "class", "interface", "const", "var", "field", "module", "macro"}
	for _, test := range []struct{ src, want string }{
		{`export function a<T>(b: T = {}): {c: T} { return b }`, "func a exported {return b}"},
		{`function a(): void; function a(b?: number) {}`, "func a; func a {}"},
		{`export default async function* () { x }`, "func default exported {x}"},
		{`const a = (b) => { c }, d = async function e() { f }, g = h => i, j = 1; let {k, l: [m], ...n} = o`,
			"func a {c}; func d {f}; func g; const j; var k; var m; var n"},
		{"const a = b<C, D>(e)\nconst f = g", "const a; const f"},
		{"const a = {b() { c }, d: () => { e }, f: 1, async *g() {}}", "const a; method a.b {c}; method a.d {e}; method a.g {}"},
		{`export abstract class A<T> extends B<{c: T}> implements D { private e = 1; static async f() { g } get h(): T { i } #j; constructor(private k: L) { m } static { n } [o]() {} abstract p(): void; q = () => { r } }`,
			"class A exported; field A.e; method A.f exported {g}; method A.h exported {i}; field A.#j; method A.constructor exported {m}; method A.p exported; method A.q exported {r}"},
		{`interface A { b: string; c?(d: E): F; readonly g: () => void; new (): A; (): B; [k: string]: C }`, "interface A; field A.b; method A.c; field A.g"},
		{"export type A =\n  | B\n  | C\nexport enum D { E = 'e', F }\nexport const enum G { H }", "type A exported; type D exported; field D.E exported; field D.F exported; type G exported; field G.H exported"},
		{`declare module "m" { export function a(): void; namespace B.C { const d: E } } declare global { interface F {} }`,
			"module m; func m.a exported; module m.B.C; const B.C.d; module global; interface global.F"},
		{`@dec({a: 1}) export class A { @dec() b() {} }`, "class A exported; method A.b exported {}"},
		{`exports.a = function () { b }; module.exports.c = 1; const d = 2; exports.d = d`, "func a exported {b}; const c exported; const d exported"},
		{`if (a) { function b() {} } for (const c of d) {} type; interface; type = 1; namespace.x(); var e`, "var e"},
		{"type A = B\nexport const c = <div>{d} it's</div>\nfunction e() {}", "type A; const c exported; func e {}"},
		{"const a = {b: 1} as const\nconst c = d satisfies E", "const a; const c"},
	} {
		var got []string
		f := source.Scan(source.TypeScript, []byte(test.src), source.All)
		for _, d := range f.Decls {
			line := kinds[d.Kind] + " "
			if d.Parent >= 0 {
				line += f.Decls[d.Parent].Name + "."
			}
			line += d.Name
			if d.Exported {
				line += " exported"
			}
			if body := test.src[d.Body.Start:d.Body.End]; body != "" {
				line += " {" + strings.TrimPrefix(strings.TrimSpace(strings.Trim(body, "{}")), "return x; ") + "}"
			}
			if d.Name != "default" && d.Name != "global" {
				assert.True(t, strings.HasPrefix(strings.Trim(test.src[d.NameAt:], `"`), d.Name), "%s: name at %q", test.src, test.src[d.NameAt:])
			}
			got = append(got, line)
		}
		assert.Equal(t, test.want, strings.Join(got, "; "), test.src)
	}
}

func TestScriptDeclIncludesDocumentation(t *testing.T) {
	src := "// License\n\n/** Doc. */\n// more\n@dec\nexport class A {\n  /** Of b. */\n  b() { c }\n} // behind\nfunction d() {}"
	f := source.Scan(source.TypeScript, []byte(src), source.All)
	require.Len(t, f.Decls, 3)
	assert.True(t, strings.HasPrefix(src[f.Decls[0].At.Start:], "/** Doc. */\n// more\n@dec"))
	assert.Equal(t, "/** Of b. */\n  b() { c }", src[f.Decls[1].At.Start:f.Decls[1].At.End])
	assert.Equal(t, "function d() {}", src[f.Decls[2].At.Start:f.Decls[2].At.End])
}

func TestScriptUses(t *testing.T) {
	for _, test := range []struct{ src, want string }{
		{`import {a, b} from "x"; a(b); a`, "a 2, b 1"},
		{`import * as n from "x"; n.a(n.b.c); n?.a; n; <n.d/>`, "n 1, n.a 2, n.b 1, n.d 1"},
		{`function f(a, {b: c, d = e}, [g], ...h) { return a + b + c + d + g + h + i }`, "b 1, e 1, i 1"},
		{`const f = (a: T) => a + b, g = c => c, h = (d): d is U => d; a; c`, "T 1, U 1, a 1, b 1, c 1"},
		{`class A<T> extends B<T> { c: D; m<U>(e: U): T { return e } f = g }`, "B 1, D 1, f 1, g 1"},
		{`({a: b, c, d() { e }, [f]: g}); h ? i : j; k: for (;;) break`, "b 1, c 1, e 1, f 1, g 1, h 1, i 1, j 1"},
		{`{ f(); function f() {} const a = b; a } a`, "a 1, b 1"},
		{`try { a } catch (b) { b } for (const c of d) { c } for (let e = 0; e < 1;) e++; e`, "a 1, d 1, e 1"},
		{"const a = `${b} c ${d => d + e}`; const g = <Foo bar={h} baz='i'>j <div/></Foo>", "Foo 1, b 1, e 1, h 1"},
		{`type A<T> = {[K in keyof T]: B<K>} | C extends infer U ? U : string; interface I<V> { w: V; x(y: Z): void }`, "B 1, C 1, Z 1"},
		{`x = a as B; y satisfies C; let z: typeof d; async function e() { for await (const f of g) f }`, "B 1, C 1, a 1, d 1, g 1, x 1, y 1"},
	} {
		var got []string
		for _, u := range source.Scan(source.TypeScript, []byte(test.src), source.All).Uses {
			name := u.Name
			if u.Of != "" {
				name = u.Of + "." + u.Name
			}
			got = append(got, fmt.Sprintf("%s %d", name, u.Count))
		}
		slices.Sort(got)
		assert.Equal(t, test.want, strings.Join(got, ", "), test.src)
	}
}

func TestScriptTokens(t *testing.T) {
	src := "#!x\nlet a = /b/g / `c${d}e` // f\nx = <p q='r'>s t</p>\n"
	kinds := []string{"comment", "string", "number", "keyword", "name", "operator"}
	var got []string
	for tok := range source.Tokens(source.TypeScript, []byte(src)) {
		got = append(got, kinds[tok.Kind]+" "+src[tok.Start:tok.End])
	}
	assert.Equal(t, []string{
		"comment #!x", "keyword let", "name a", "operator =", "string /b/g", "operator /", "string `c", "operator ${", "name d", "operator }",
		"string e`", "comment // f", "name x", "operator =", "operator <", "name p", "name q", "operator =", "string 'r'", "operator >", "string s t",
		"operator </", "name p", "operator >",
	}, got)
}

// specifiers is a program for Node.js that prints what the parser of TypeScript finds to be imported.
const specifiers = `
const ts = require(process.argv[1] + '/typescript'), fs = require('fs')
for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const source = ts.createSourceFile(file, fs.readFileSync(file, 'utf8'), ts.ScriptTarget.Latest)
  if (source.parseDiagnostics.length) continue
  const paths = [], todo = [source], literal = n => n && ts.isStringLiteralLike(n) && paths.push(n.text)
  while (todo.length) {
    const n = todo.pop()
    if (ts.isImportDeclaration(n) || ts.isExportDeclaration(n)) literal(n.moduleSpecifier)
    else if (ts.isExternalModuleReference(n)) literal(n.expression)
    else if (ts.isImportTypeNode(n) && ts.isLiteralTypeNode(n.argument)) literal(n.argument.literal)
    else if (ts.isCallExpression(n) && (n.expression.kind === ts.SyntaxKind.ImportKeyword || n.expression.text === 'require')) literal(n.arguments[0])
    ts.forEachChild(n, c => { todo.push(c) })
  }
  console.log(JSON.stringify({file, paths: paths.sort()}))
}`

// TestScriptImportsAgreeWithTypeScript compares the imports in many packages with those that TypeScript finds.
// AYCODER_NODE_MODULES names a directory of packages, of which typescript is one.
func TestScriptImportsAgreeWithTypeScript(t *testing.T) {
	dir := os.Getenv("AYCODER_NODE_MODULES")
	if _, err := os.Stat(filepath.Join(dir, "typescript")); dir == "" || err != nil {
		t.Skip("no packages: set AYCODER_NODE_MODULES to a node_modules with typescript and others")
	}
	node := exec.CommandContext(t.Context(), "node", "-e", specifiers, dir)
	node.Stdin = strings.NewReader(strings.Join(scripts(t, dir, 5000), "\n"))
	out, err := node.Output()
	require.NoError(t, err)
	found, wanted, hit := 0, 0, 0
	for line := range strings.Lines(string(out)) {
		var want struct {
			File  string
			Paths []string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &want))
		src, err := os.ReadFile(want.File)
		require.NoError(t, err)
		count := map[string]int{}
		for _, i := range source.Scan(source.TypeScript, src, source.ImportsOnly).Imports {
			if i.Kind != source.Mock && src[i.At.Start-2] != '=' && src[i.At.Start-3] != '=' { // nor a reference
				count[i.Path]++
				found++
			}
		}
		for _, p := range want.Paths {
			wanted++
			if count[p]--; count[p] >= 0 {
				hit++
			} else {
				t.Log("missed", want.File, p)
			}
		}
	}
	require.NotZero(t, wanted)
	t.Logf("%d imports, recall %.5f, precision %.5f", wanted, float64(hit)/float64(wanted), float64(hit)/float64(found))
	assert.GreaterOrEqual(t, float64(hit), 0.9999*float64(wanted))
	assert.GreaterOrEqual(t, float64(hit), 0.999*float64(found))
}

// scripts returns about n source files in a directory, evenly chosen.
func scripts(t testing.TB, dir string, n int) (files []string) {
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && source.LanguageOf(p, nil) == source.TypeScript {
			if info, err := d.Info(); err == nil && info.Size() < 1<<20 {
				files = append(files, p)
			}
		}
		return err
	}))
	step := max(len(files)/n, 1)
	for i := range len(files) / step {
		files[i] = files[i*step]
	}
	return files[:len(files)/step]
}

// snippets are the examples of the tests, for fuzzing.
var snippets = []string{
	"import a, {b as c, type d} from 'e'; export * as f from \"g\"; const {h} = require('i'); import('j').then(k)",
	"const a = <A.B c='d' {...e}>f {g} <h/></A.B>; const i = <T,>(j: T): j is U => `k${l}` + /[/]m/g",
	"@a() export abstract class B<T> extends C { private d = 1; static { e } get f(): {g: h} { i } #j; }",
	"declare module 'a' { namespace b.c { enum d { e = 1 } } } type f = { [K in keyof g]: h } | i",
	"module.exports = {a, b: c, d() {}, e: function () {}}; exports.f = g; if (h) /i/.j; k ? l : m => n",
	"const a = b<C, D>(e), {f = g, h: [i]} = j\nfunction* k({l}, ...m) { try {} catch (n) {} }",
}

func FuzzScript(f *testing.F) {
	for _, s := range snippets {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		at := int32(0)
		for tok := range source.Tokens(source.TypeScript, src) {
			require.True(t, at <= tok.Start && tok.Start < tok.End && int(tok.End) <= len(src), "token %v after %d", tok, at)
			require.Empty(t, strings.TrimFunc(string(src[at:tok.Start]), func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' }))
			at = tok.End
		}
		all, only := source.Scan(source.TypeScript, src, source.All), source.Scan(source.TypeScript, src, source.ImportsOnly)
		require.Equal(t, all.Imports, only.Imports)
		for i, d := range all.Decls {
			require.True(t, d.At.Start <= d.At.End && int(d.At.End) <= len(src) && int(d.Parent) < i, "%+v", d)
			require.True(t, d.Body == source.Span{} || d.At.Start <= d.Body.Start && d.Body.Start < d.Body.End && d.Body.End <= d.At.End, "%+v", d)
		}
	})
}

func BenchmarkScript(b *testing.B) {
	src := []byte(strings.Repeat("import {aaa, bbb as ccc} from './some/module';\n/** A function. */\nexport async function fetchAll(urls: string[], limit = 10): Promise<Result[]> {\n"+
		"  const out = [];\n  for (const url of urls.slice(0, limit)) {\n    out.push(await fetch(`${base}/${url}`, { headers: { 'x-id': aaa } }));\n  }\n  return out.map((r) => bbb(r)) as Result[];\n}\n", 500))
	for name, part := range map[string]source.Part{"All": source.All, "ImportsOnly": source.ImportsOnly} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				source.Scan(source.TypeScript, src, part)
			}
		})
	}
}

// A source that is not valid gives ranges that lie in each other, and no panic.
func TestScriptThatIsNotValid(t *testing.T) {
	for _, src := range []string{
		"const {: a} = require('x')\n",
		"const {x, : , : b} = await import('x')\n",
		"const tool = {\n\texecute: async (\n\t\tid:<, title }: { label: string; path: string },\n\t\tsignal?: AbortSignal,\n\t) => {\n\t\tif (a) {}\n\t},\n}\n",
	} {
		f := source.Scan(source.TypeScript, []byte(src), source.All)
		for _, d := range f.Decls {
			require.LessOrEqual(t, d.Body.End, d.At.End, src)
			require.LessOrEqual(t, d.At.End, int32(len(src)), src)
			if d.Parent >= 0 {
				require.LessOrEqual(t, d.At.End, f.Decls[d.Parent].At.End, src)
			}
		}
	}
}
