package resolve_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// treeOf makes a tree from sections that begin with "-- path --".
func treeOf(text string) *tree {
	f := newTree()
	for _, section := range strings.Split("\n"+text, "\n-- ")[1:] {
		name, content, _ := strings.Cut(section, " --\n")
		f.put(strings.TrimSuffix(name, " --"), []byte(content))
	}
	return f
}

// drop removes a file, and the directories that are empty without it.
func (f *tree) drop(p string) {
	delete(f.content, p)
	delete(f.facts, p)
	for name := path.Base(p); ; name = path.Base(p) + "/" {
		p = path.Dir(p)
		f.dirs[p] = slices.DeleteFunc(f.dirs[p], func(n string) bool { return n == name })
		if p == "." || len(f.dirs[p]) > 0 {
			return
		}
		delete(f.dirs, p)
	}
}

// A scriptLayout is a workspace with the edges that are expected of it, by the documentation of the tools.
type scriptLayout struct {
	name, tree string
	want       []string
	// unbuilt says that TypeScript does not see all of the edges: they depend on a build or an installation.
	unbuilt bool
}

var scriptLayouts = []scriptLayout{
	{name: "extensions", tree: `
-- a.ts --
import "./b"; import "./c.js"; import "./d.mjs"; import "./e.cjs"; import "./f.jsx"; import "./g"; import "./h"; import "./i"; import "./none"; import "."; import "./j.test"; import "./k.json"; import "./l.js"
-- b.ts --
-- b.js --
-- c.ts --
-- d.mts --
-- e.d.cts --
-- f.tsx --
-- g/index.ts --
-- g/package.json --
{}
-- h/package.json --
{"main": "lib.js"}
-- h/lib.ts --
-- i.js --
-- i.d.ts --
-- i/index.ts --
-- index.ts --
-- j.test.ts --
-- k.json --
{}
-- l.js --
-- tsconfig.json --
{"compilerOptions": {"module": "esnext", "moduleResolution": "bundler", "allowJs": true, "resolveJsonModule": true}}
`, want: []string{"a.ts b.ts", "a.ts c.ts", "a.ts d.mts", "a.ts e.d.cts", "a.ts f.tsx", "a.ts g/index.ts", "a.ts h/lib.ts", "a.ts i.d.ts", "a.ts index.ts", "a.ts j.test.ts", "a.ts k.json", "a.ts l.js"}},
	{name: "paths", tree: `
-- tsconfig.json --
{ // with comments
  "extends": ["./base/one.json", "./base/two"],
  "compilerOptions": {"paths": {"@/*": ["./src/*", "./generated/*"], "@/special": ["./special.ts"], "exact": ["./src/exact"], "*.style": ["./styles/*.ts"],}, /* trailing */ },
}
-- base/one.json --
{"compilerOptions": {"baseUrl": "..", "module": "esnext", "moduleResolution": "bundler", "paths": {"gone": ["./special.ts"]}}}
-- base/two.json --
{"compilerOptions": {"rootDirs": ["../src", "../generated"]}}
-- src/a.ts --
import "@/b"; import "@/c"; import "@/special"; import "exact"; import "x.style"; import "lib/d"; import "gone"; import "./c"; import "@/none"
-- src/b.ts --
-- generated/c.ts --
import "./b"
-- special.ts --
-- src/exact/index.ts --
-- styles/x.ts --
-- lib/d.ts --
`, want: []string{"generated/c.ts src/b.ts", "src/a.ts generated/c.ts", "src/a.ts lib/d.ts", "src/a.ts special.ts", "src/a.ts src/b.ts", "src/a.ts src/exact/index.ts", "src/a.ts styles/x.ts"}},
	{name: "paths below a base that is set later", tree: `
-- base.json --
{"compilerOptions": {"module": "esnext", "moduleResolution": "bundler", "paths": {"@/*": ["./lib/*"], "rel": ["../rel"]}}}
-- app/tsconfig.json --
{"extends": "../base", "compilerOptions": {"baseUrl": "./src"}}
-- app/src/a.ts --
import "@/b"; import "rel"; import "c"
-- app/src/lib/b.ts --
-- lib/b.ts --
-- app/rel.ts --
-- rel.ts --
-- app/src/c.ts --
`, want: []string{"app/src/a.ts app/rel.ts", "app/src/a.ts app/src/c.ts", "app/src/a.ts app/src/lib/b.ts"}},
	{name: "references", tree: `
-- tsconfig.json --
{"files": [], "references": [{"path": "./tsconfig.node.json"}, {"path": "./tsconfig.app.json"}]}
-- tsconfig.app.json --
{"compilerOptions": {"paths": {"~/*": ["./src/*"]}}, "include": ["src"]}
-- tsconfig.node.json --
{"compilerOptions": {"paths": {"~/*": ["./tools/*"]}}, "include": ["*.config.ts"]}
-- src/main.ts --
import "~/x"
-- src/x.ts --
-- tools/x.ts --
-- vite.config.ts --
import "~/x"
`, want: []string{"src/main.ts src/x.ts", "vite.config.ts tools/x.ts"}, unbuilt: true},
	{name: "exports", tree: `
-- package.json --
{"name": "root", "type": "module", "exports": {".": {"import": {"types": "./types.d.ts", "default": "./main.js"}, "require": "./main.cjs"}, "./sub": null, "./f/*": "./features/*.js", "./f/x/*": "./special/*.js", "./f/private/*": null, "./arr": ["./none.js", "./arr.js"]},
 "imports": {"#a": "./a.js", "#lib/*": {"types": "./lib/*.d.ts", "default": "./lib/*.js"}, "#dep": "root/f/one"}}
-- types.d.ts --
-- main.js --
-- main.cjs --
-- arr.js --
-- features/one.ts --
-- features/private/two.ts --
-- special/y.ts --
-- lib/z.d.ts --
-- a.ts --
import "root"; import "root/f/one"; import "root/f/x/y"; import "root/f/private/two"; import "root/arr"; import "root/main.js"; import "#lib/z"; import "#dep"; import "#none"; import "root/sub"
-- b.ts --
import "#a"
-- tsconfig.json --
{"compilerOptions": {"module": "nodenext", "allowJs": true}}
`, want: []string{"a.ts arr.js", "a.ts features/one.ts", "a.ts lib/z.d.ts", "a.ts special/y.ts", "a.ts types.d.ts", "b.ts a.ts"}},
	{name: "npm workspace", tree: `
-- package.json --
{"workspaces": ["packages/*", "!packages/out", "apps/**"]}
-- packages/ui/package.json --
{"name": "@acme/ui", "main": "dist/index.js", "types": "dist/index.d.ts"}
-- packages/ui/src/index.tsx --
export * from "./button"
-- packages/ui/src/button.tsx --
-- packages/core/package.json --
{"name": "core", "exports": {".": {"types": "./build/types/index.d.ts", "default": "./build/esm/index.js"}, "./*": "./build/esm/*.js"}}
-- packages/core/source/index.ts --
import "core/util"
-- packages/core/src/util.ts --
-- packages/out/package.json --
{"name": "out"}
-- packages/out/index.ts --
-- packages/plain/package.json --
{"name": "plain"}
-- packages/plain/index.js --
-- packages/plain/deep/x.js --
-- apps/web/site/package.json --
{"name": "site"}
-- apps/web/site/app/page.tsx --
import "@acme/ui"; import "core"; import "core/util"; import "out"; import "plain"; import "plain/deep/x"; import "react"; import "@acme/ui/src/button"; import "@acme/ui/dist/button.js"
`, want: []string{"apps/web/site/app/page.tsx packages/core/source/index.ts", "apps/web/site/app/page.tsx packages/core/src/util.ts", "apps/web/site/app/page.tsx packages/plain/deep/x.js", "apps/web/site/app/page.tsx packages/plain/index.js",
		"apps/web/site/app/page.tsx packages/ui/src/button.tsx", "apps/web/site/app/page.tsx packages/ui/src/index.tsx", "packages/core/source/index.ts packages/core/src/util.ts", "packages/ui/src/index.tsx packages/ui/src/button.tsx"}, unbuilt: true},
	{name: "pnpm workspace", tree: `
-- repo/pnpm-workspace.yaml --
# where
packages:
  - 'libs/*' # all
  - "tools/{one,two}"

catalog:
  - nothing
-- repo/libs/a/package.json --
{"name": "a", "exports": "./out/main.js", "dependencies": {"local": "file:../../vendor/local"}}
-- repo/libs/a/tsconfig.json --
{"extends": "config/base.json", "compilerOptions": {"outDir": "out", "rootDir": "code"}}
-- repo/libs/a/code/main.ts --
import "two"; import "local"; import "config-path"
-- repo/vendor/local/package.json --
{"name": "other"}
-- repo/vendor/local/index.ts --
-- repo/tools/two/package.json --
{"name": "two", "typesVersions": {"*": {"sub": ["lib/sub"]}}}
-- repo/tools/two/src/index.ts --
import "a"; import "two/sub"; import "./util/index.js"
-- repo/tools/two/src/sub.ts --
-- repo/tools/two/src/util/index.ts --
-- repo/libs/config/package.json --
{"name": "config"}
-- repo/libs/config/base.json --
{"compilerOptions": {"paths": {"config-path": ["${configDir}/code/here"]}}}
-- repo/libs/a/code/here.ts --
`, want: []string{"repo/libs/a/code/main.ts repo/libs/a/code/here.ts", "repo/libs/a/code/main.ts repo/tools/two/src/index.ts", "repo/libs/a/code/main.ts repo/vendor/local/index.ts",
		"repo/tools/two/src/index.ts repo/libs/a/code/main.ts", "repo/tools/two/src/index.ts repo/tools/two/src/sub.ts", "repo/tools/two/src/index.ts repo/tools/two/src/util/index.ts"}, unbuilt: true},
	{name: "installed", tree: `
-- a/x.ts --
import "dep"; import "dep/sub"; import "@s/dep"
-- a/tsconfig.json --
{"compilerOptions": {"module": "esnext", "moduleResolution": "bundler"}}
-- node_modules/dep/package.json --
{"name": "dep", "types": "index.d.ts", "main": "index.js"}
-- node_modules/dep/index.d.ts --
-- node_modules/dep/index.js --
-- node_modules/dep/sub.d.ts --
-- node_modules/dep/sub.js --
-- a/node_modules/@s/dep/index.d.ts --
`, want: []string{"a/x.ts a/node_modules/@s/dep/index.d.ts", "a/x.ts node_modules/dep/index.d.ts", "a/x.ts node_modules/dep/sub.d.ts"}},
	{name: "commonjs", tree: `
-- index.js --
const a = require("./lib"); module.exports = require("./lib/b"); jest.mock("./lib/c"); import("./lib/d.js")
-- lib/index.js --
-- lib/b.js --
-- lib/c.js --
-- lib/d.js --
`, want: []string{"index.js lib/b.js", "index.js lib/c.js", "index.js lib/d.js", "index.js lib/index.js"}, unbuilt: true},
}

// edgesOf returns the imports of all files as lines.
func edgesOf(f *tree, x *resolve.Index) (edges []string) {
	for file := range f.facts {
		for _, e := range x.Imports(file) {
			edges = append(edges, file+" "+e.To)
		}
	}
	slices.Sort(edges)
	return slices.Compact(edges)
}

func TestScriptLayouts(t *testing.T) {
	for _, layout := range scriptLayouts {
		f := treeOf(layout.tree)
		assert.Equal(t, layout.want, edgesOf(f, resolve.New(f)), layout.name)
	}
}

// resolutions is a program for Node.js that prints where TypeScript finds what the files of a directory import.
const resolutions = `
const ts = require(process.argv[1] + '/typescript'), path = require('path'), root = process.argv[2]
for (const file of ts.sys.readDirectory(root, ['.ts', '.tsx', '.js'], ['**/node_modules'])) {
  const config = ts.findConfigFile(path.dirname(file), ts.sys.fileExists)
  if (!config) continue
  const options = ts.parseJsonConfigFileContent(ts.readConfigFile(config, ts.sys.readFile).config, ts.sys, path.dirname(config), {}, config).options
  for (const i of ts.preProcessFile(ts.sys.readFile(file), true, true).importedFiles) {
    const mode = ts.getImpliedNodeFormatForFile(file, undefined, ts.sys, options)
    const found = ts.resolveModuleName(i.fileName, file, options, ts.sys, undefined, undefined, mode).resolvedModule
    if (found) console.log(path.relative(root, file) + ' ' + path.relative(root, found.resolvedFileName))
  }
}`

// TestScriptLayoutsAgreeWithTypeScript checks what the other test expects where TypeScript can tell.
func TestScriptLayoutsAgreeWithTypeScript(t *testing.T) {
	modules := os.Getenv("AYCODER_NODE_MODULES")
	if _, err := os.Stat(filepath.Join(modules, "typescript")); modules == "" || err != nil {
		t.Skip("no packages: set AYCODER_NODE_MODULES to a node_modules with typescript")
	}
	for _, layout := range scriptLayouts {
		if layout.unbuilt {
			continue
		}
		dir := t.TempDir()
		for p, content := range treeOf(layout.tree).content {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, path.Dir(p)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, p), content, 0o644))
		}
		out, err := exec.CommandContext(t.Context(), "node", "-e", resolutions, modules, dir).Output()
		require.NoError(t, err)
		want := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(want)
		assert.Equal(t, slices.Compact(want), layout.want, layout.name)
	}
}

var scriptDefinitions = `
-- main.ts --
import {a, b as bb, c, d, e, ext} from "./barrel"; import D, * as ns from "./deep/one"; import type {T} from "./types"; import def from "./default"
a(); a; bb.x; let t: T; ns.one(); ns.one; ns.two; D; def(); e.f; c
-- barrel.ts --
export * from "./deep/one"; export * from "./deep/cycle"; export {two as b} from "./deep"; import {c0} from "./deep/one"; export {c0 as c}; export * as e from "./types"; export {ext} from "external"
-- deep/index.ts --
export * from "./one"
-- deep/cycle.ts --
export * from "../barrel"; export const d = 1
-- deep/one.ts --
export function a() {} export const one = 1, two = 2, c0 = 3; export default class One {}
-- types.ts --
export interface T {} export type f = 1
-- default.ts --
export default () => 1
-- old.js --
const m = require("./common"), {g: h} = require("./common"), whole = require("./data.json"); m.g(); h(); whole.x
-- common.js --
exports.g = function () {}; module.exports.k = 1
-- data.json --
{}
`

func TestScriptRefs(t *testing.T) {
	f := treeOf(scriptDefinitions)
	x := resolve.New(f)
	refs := func(file string) (out []string) {
		for r := range x.Refs(file).All() {
			out = append(out, fmt.Sprint(r.To, " ", r.Name, " ", r.Count))
		}
		return out
	}
	assert.Equal(t, []string{"deep/cycle.ts d 0", "deep/one.ts One 1", "deep/one.ts a 2", "deep/one.ts c0 1", "deep/one.ts one 2", "deep/one.ts two 2", "default.ts default 1", "types.ts  1", "types.ts T 1"}, refs("main.ts"))
	assert.Equal(t, []string{"deep/one.ts c0 0", "deep/one.ts two 0"}, refs("barrel.ts"))
	assert.Equal(t, []string{"common.js g 2", "data.json  1"}, refs("old.js"))
}

// TestScriptChanges makes random changes, and compares the index with a new one after each.
func TestScriptChanges(t *testing.T) {
	for _, layout := range append(scriptLayouts, scriptLayout{name: "definitions", tree: scriptDefinitions}) {
		random := rand.New(rand.NewPCG(1, uint64(len(layout.tree))))
		f := treeOf(layout.tree)
		x := resolve.New(f)
		paths := slices.Sorted(maps.Keys(f.content))
		for range 60 {
			p := paths[random.IntN(len(paths))]
			from := treeOf(layout.tree).content[paths[random.IntN(len(paths))]]
			switch content, there := f.content[p]; {
			case !there:
				f.put(p, treeOf(layout.tree).content[p])
			case random.IntN(3) == 0:
				f.drop(p)
			case path.Ext(p) == ".json" && random.IntN(2) == 0:
				f.put(p, []byte(strings.Replace(string(content), "./", "./src/", 1)))
			default:
				f.put(p, from)
			}
			x.Changed(p, true)
			fresh := resolve.New(f)
			for file := range f.facts {
				require.Equal(t, fresh.Imports(file), x.Imports(file), "%s: %s after a change of %s", layout.name, file, p)
				require.Equal(t, fresh.Refs(file), x.Refs(file), "%s: %s after a change of %s", layout.name, file, p)
			}
		}
	}
}

func FuzzScriptConfig(f *testing.F) {
	f.Add([]byte(`{"extends": "./a", /* c */ "compilerOptions": {"paths": {"*": ["./*"], "a/*": ["b"],}, "baseUrl": "."}, "include": ["**/*", "a*/?.ts"]}`))
	f.Add([]byte(`{"name": "a", "exports": {"./*/x": {"import": ["./*.js", null]}, ".": "./a"}, "workspaces": {"packages": ["**", "{a,b}/*"]}, "imports": {"#*": "./*"}}`))
	f.Add([]byte("packages:\n - 'a'\n - \"b/**\" # c\n"))
	f.Fuzz(func(t *testing.T, config []byte) {
		files := treeOf("-- a/b.ts --\nimport 'a/x'; import '#x'; import './c'; import 'b'\n-- a/c.ts --\n")
		for _, name := range []string{"package.json", "tsconfig.json", "pnpm-workspace.yaml", "a/package.json"} {
			files.put(name, config)
		}
		for _, e := range resolve.New(files).Imports("a/b.ts") {
			require.True(t, files.IsFile(e.To), "%q", e.To)
		}
	})
}
