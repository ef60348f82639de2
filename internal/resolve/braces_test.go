package resolve_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/resolve"
	"github.com/stretchr/testify/require"
)

// A braceLayout is a workspace, as files with a line "-- path --" before each, and what the files import and use.
type braceLayout struct {
	name, files string
	imports     string // lines: file: to to
	refs        string // lines: file: to name count
}

func (l *braceLayout) tree() *tree {
	out := newTree()
	for _, part := range strings.Split("\n"+l.files, "\n-- ")[1:] {
		name, text, _ := strings.Cut(part+"\n", " --\n")
		out.put(name, []byte(text))
	}
	return out
}

// showBraces writes the imports and references of the files that have any.
func showBraces(x *resolve.Index, f *tree) (imports, refs string) {
	var i, r strings.Builder
	for _, file := range keysOf(f.facts) {
		var to, uses []string
		for _, e := range x.Imports(file) {
			to = append(to, e.To)
		}
		for ref := range x.Refs(file).All() {
			uses = append(uses, fmt.Sprintf("%s %s %d", ref.To, ref.Name, ref.Count))
		}
		if len(to) > 0 {
			fmt.Fprintf(&i, "%s: %s\n", file, strings.Join(to, " "))
		}
		if len(uses) > 0 {
			fmt.Fprintf(&r, "%s: %s\n", file, strings.Join(uses, ", "))
		}
	}
	return i.String(), r.String()
}

func keysOf[V any](m map[string]V) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func testBraces(t *testing.T, layouts []braceLayout) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			f := l.tree()
			imports, refs := showBraces(resolve.New(f), f)
			require.Equal(t, strings.TrimPrefix(l.imports, "\n"), imports)
			if l.refs != "" {
				require.Equal(t, strings.TrimPrefix(l.refs, "\n"), refs)
			}
			changeBraces(t, f)
		})
	}
}

// changeBraces changes a workspace at random, and compares an index that is told of the changes with a new one.
func changeBraces(t *testing.T, f *tree) {
	r := rand.New(rand.NewSource(1))
	x := resolve.New(f)
	names := keysOf(f.content)
	kept := map[string][]byte{}
	for _, name := range names {
		kept[name] = f.content[name]
	}
	for range 60 {
		var changed []string
		for range 1 + r.Intn(2) {
			name := names[r.Intn(len(names))]
			other := kept[names[r.Intn(len(names))]]
			switch r.Intn(5) {
			case 0:
				f.without(name)
			case 1: // a file moves away and another one takes its place
				f.put(name, other)
			case 2:
				name = strings.Replace(name, "/", "/x/", 1)
				f.put(name, other)
			case 3: // lines move or go
				lines := strings.SplitAfter(string(kept[name]), "\n")
				lines[r.Intn(len(lines))] = ""
				f.put(name, []byte(strings.Join(lines, "")))
			default:
				f.put(name, kept[name])
			}
			changed = append(changed, name)
		}
		for _, name := range changed {
			x.Changed(name, true)
		}
		imports, refs := showBraces(x, f)
		wantImports, wantRefs := showBraces(resolve.New(f), f)
		require.Equal(t, wantImports, imports, changed)
		require.Equal(t, wantRefs, refs, changed)
	}
}

// without removes a file and the directories that become empty.
func (f *tree) without(name string) {
	delete(f.content, name)
	delete(f.facts, name)
	f.dirs = map[string][]string{".": nil}
	content := f.content
	f.content = map[string][]byte{}
	for _, p := range keysOf(content) {
		f.put(p, content[p])
	}
}

func TestRustLayouts(t *testing.T) {
	testBraces(t, []braceLayout{
		{
			name: "a workspace with renamed packages",
			files: `
-- Cargo.toml --
[workspace]
members = ["crates/*"]
[workspace.dependencies]
shared-things = { path = "crates/shared" }
other = { package = "my-other", path = "crates/other" }
-- crates/app/Cargo.toml --
[package]
name = "app"
edition = "2021"
[dependencies]
shared-things.workspace = true
other = { workspace = true }
renamed = { package = "my-other", path = "../other" }
serde = "1"
[target.'cfg(unix)'.dependencies]
named-lib = { path = "../lib" }
-- crates/app/src/main.rs --
mod a;
#[macro_use] mod b;
use shared_things::{Thing, deep::Inner as In};
use other::O;
use renamed::part;
use given::g;
use app::lib_fn;
use serde::Serialize;
fn main() { a::run(); crate::b::c::go(Thing::new(), In {}, O, g(), lib_fn()); part::p(); b::up(); }
-- crates/app/src/lib.rs --
pub fn lib_fn() {}
-- crates/app/src/a.rs --
use crate::b::{self, c::go};
pub fn run() { go(1); b::up(); helper!(); }
-- crates/app/src/b/mod.rs --
pub mod c;
pub fn up() {}
macro_rules! helper { () => {} }
-- crates/app/src/b/c.rs --
use super::up;
pub fn go(x: u8) { up(); self::local(); super::super::a::run() }
fn local() {}
-- crates/app/tests/it.rs --
mod common;
use app::lib_fn;
#[test] fn t() { lib_fn(); common::setup(); }
-- crates/app/tests/common/mod.rs --
pub fn setup() {}
-- crates/shared/Cargo.toml --
[package]
name = "shared-things"
edition = "2021"
-- crates/shared/src/lib.rs --
mod thing;
pub mod deep;
pub use thing::Thing;
-- crates/shared/src/thing.rs --
pub struct Thing;
impl Thing { pub fn new() -> Self { Thing } }
-- crates/shared/src/deep.rs --
pub use self::more::*;
mod more;
-- crates/shared/src/deep/more.rs --
pub struct Inner {}
-- crates/other/Cargo.toml --
[package]
name = "my-other"
edition = "2021"
-- crates/other/src/lib.rs --
pub struct O;
pub mod part { pub fn p() {} }
-- crates/lib/Cargo.toml --
[package]
name = "named-lib"
edition = "2021"
[lib]
name = "given"
path = "source.rs"
-- crates/lib/source.rs --
pub fn g() {}
`,
			imports: `
crates/app/src/a.rs: crates/app/src/b/mod.rs crates/app/src/b/c.rs
crates/app/src/b/c.rs: crates/app/src/b/mod.rs
crates/app/src/b/mod.rs: crates/app/src/b/c.rs
crates/app/src/main.rs: crates/app/src/a.rs crates/app/src/b/mod.rs crates/shared/src/lib.rs crates/shared/src/deep.rs crates/other/src/lib.rs crates/other/src/lib.rs crates/lib/source.rs crates/app/src/lib.rs
crates/app/tests/it.rs: crates/app/tests/common/mod.rs crates/app/src/lib.rs
crates/shared/src/deep.rs: crates/shared/src/deep/more.rs crates/shared/src/deep/more.rs
crates/shared/src/lib.rs: crates/shared/src/thing.rs crates/shared/src/deep.rs crates/shared/src/thing.rs
`,
			refs: `
crates/app/src/a.rs: crates/app/src/b/c.rs go 1, crates/app/src/b/mod.rs helper 1, crates/app/src/b/mod.rs up 1
crates/app/src/b/c.rs: crates/app/src/a.rs run 1, crates/app/src/b/mod.rs up 1
crates/app/src/main.rs: crates/app/src/a.rs run 1, crates/app/src/b/c.rs go 1, crates/app/src/b/mod.rs up 1, crates/app/src/lib.rs lib_fn 1, crates/lib/source.rs g 1, crates/other/src/lib.rs O 1, crates/other/src/lib.rs p 1, crates/shared/src/deep/more.rs Inner 1, crates/shared/src/thing.rs Thing 1, crates/shared/src/thing.rs new 1
crates/app/tests/it.rs: crates/app/src/lib.rs lib_fn 1, crates/app/tests/common/mod.rs setup 1
crates/shared/src/lib.rs: crates/shared/src/thing.rs Thing 0
`,
		},
		{
			name: "paths, inline modules and the first edition",
			files: `
-- Cargo.toml --
[package]
name = "old"
[[bin]]
name = "tool"
path = "tools/tool.rs"
-- tools/tool.rs --
extern crate old as base;
#[cfg(unix)] #[path = "sys/unix.rs"] mod sys;
#[cfg(windows)] #[path = "sys/windows.rs"] mod sys;
mod inline { mod leaf; pub mod deeper { use super::leaf::L; use sys::S; #[path = "odd.rs"] mod named; } }
use sys::nested::N;
use base::root_fn;
fn main() { base::util::u(); root_fn() }
-- tools/sys/unix.rs --
mod nested;
pub struct S;
-- tools/sys/windows.rs --
pub struct S;
-- tools/sys/nested.rs --
pub struct N;
-- tools/inline/leaf.rs --
pub struct L;
-- tools/inline/deeper/odd.rs --
use inline::leaf::L;
-- src/lib.rs --
pub mod util;
pub fn root_fn() {}
-- src/util.rs --
use root_fn;
use util::other::X;
pub fn u() { root_fn() }
mod other { pub struct X; }
-- scripts/alone.rs --
mod beside;
-- scripts/beside.rs --
`,
			imports: `
scripts/alone.rs: scripts/beside.rs
src/lib.rs: src/util.rs
src/util.rs: src/lib.rs
tools/inline/deeper/odd.rs: tools/inline/leaf.rs
tools/sys/unix.rs: tools/sys/nested.rs
tools/tool.rs: src/lib.rs tools/sys/unix.rs tools/sys/windows.rs tools/inline/leaf.rs tools/inline/leaf.rs tools/sys/unix.rs tools/sys/windows.rs tools/inline/deeper/odd.rs tools/sys/nested.rs src/lib.rs
`,
		},
	})
}

func TestCLayouts(t *testing.T) {
	testBraces(t, []braceLayout{
		{
			name: "include directories",
			files: `
-- CMakeLists.txt --
target_include_directories(app PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/public third_party/z)
-- Makefile --
CFLAGS += -Ibuild/gen -I$(top_srcdir)/conf -Wall
-- app/main.c --
#include <stdio.h>
#include <string.h>
#include "local.h"
#include "lib/api.h"
#include <pub.h>
#include "z.h"
#include <config.h>
#include "far.h"
#include "gen.h"
#if 0
#include "lib/impl.h"
#endif
int main(void) { struct api a; api_open(&a, LIMIT, local); return helper(FAR); }
-- app/local.h --
static int local;
-- app/string.h --
-- lib/include/lib/api.h --
#include "impl.h"
struct api { int x; };
int api_open(struct api *a, int n, int m);
-- lib/include/lib/impl.h --
#define LIMIT 3
enum { RED, GREEN };
-- public/pub.h --
int helper(int x);
-- third_party/z/z.h --
-- build/gen/gen.h --
-- conf/config.h --
-- other/deep/far.h --
-- app/deep/x/far.h --
#define FAR 1
`,
			imports: `
app/main.c: app/local.h lib/include/lib/api.h public/pub.h third_party/z/z.h conf/config.h app/deep/x/far.h build/gen/gen.h
lib/include/lib/api.h: lib/include/lib/impl.h
`,
			refs: `
app/main.c: app/deep/x/far.h FAR 1, app/local.h local 1, build/gen/gen.h  0, conf/config.h  0, lib/include/lib/api.h api 1, lib/include/lib/api.h api_open 1, lib/include/lib/impl.h LIMIT 1, public/pub.h helper 1, third_party/z/z.h  0
lib/include/lib/api.h: lib/include/lib/impl.h  0
`,
		},
		{
			name: "namespaces of C++",
			files: `
-- src/geo.hpp --
namespace geo { class Box { public: int area() const; static Box unit(); }; int dist(int a); }
-- src/geo.cpp --
#include "geo.hpp"
int geo::Box::area() const { return dist(1); }
-- src/use.cc --
#include "geo.hpp"
using namespace geo;
int f() { Box b = Box::unit(); return geo::dist(b.area()); }
`,
			imports: `
src/geo.cpp: src/geo.hpp
src/use.cc: src/geo.hpp
`,
			refs: `
src/geo.cpp: src/geo.hpp dist 1
src/use.cc: src/geo.hpp Box 2, src/geo.hpp dist 1, src/geo.hpp geo 2, src/geo.hpp unit 1
`,
		},
	})
}

func TestJavaLayouts(t *testing.T) {
	testBraces(t, []braceLayout{{
		name: "modules of Maven",
		files: `
-- core/src/main/java/org/a/Core.java --
package org.a;
import org.a.util.*;
import static org.a.util.Consts.MAX;
public class Core extends Base { Helper h = new Helper(MAX); Extra e; static class Nested {} public static int make() { return 1; } }
-- core/src/main/java/org/a/Base.java --
package org.a;
class Base {}
class Extra {}
-- core/src/main/java/org/a/util/Helper.java --
package org.a.util;
public class Helper { Helper(int x) {} }
-- core/src/main/java/org/a/util/Consts.java --
package org.a.util;
public interface Consts { int MAX = 3; }
-- core/src/test/java/org/a/CoreTest.java --
package org.a;
import org.a.Core.Nested;
import java.util.List;
class CoreTest { void t(List<Nested> x) { Core.make(); new Fixture(); } }
-- core/src/test/java/org/a/Fixture.java --
package org.a;
class Fixture {}
-- app/src/main/java/Main.java --
import org.a.Core;
import org.a.util.Missing;
class Main { public static void main(String[] args) { Core core = null; Core.make(); Fixture f; } }
-- odd/Elsewhere.java --
package org.b;
import org.a.util.Helper;
import static org.a.util.Consts.*;
class Elsewhere { int m = MAX; }
`,
		imports: `
app/src/main/java/Main.java: core/src/main/java/org/a/Core.java
core/src/main/java/org/a/Core.java: core/src/main/java/org/a/util/ core/src/main/java/org/a/util/Consts.java
core/src/test/java/org/a/CoreTest.java: core/src/main/java/org/a/Core.java
odd/Elsewhere.java: core/src/main/java/org/a/util/Helper.java core/src/main/java/org/a/util/Consts.java
`,
		refs: `
app/src/main/java/Main.java: core/src/main/java/org/a/Core.java Core 2, core/src/main/java/org/a/Core.java make 1
core/src/main/java/org/a/Core.java: core/src/main/java/org/a/Base.java Base 1, core/src/main/java/org/a/Base.java Extra 1, core/src/main/java/org/a/util/Consts.java MAX 1, core/src/main/java/org/a/util/Helper.java Helper 2
core/src/test/java/org/a/CoreTest.java: core/src/main/java/org/a/Core.java Core 1, core/src/main/java/org/a/Core.java Nested 1, core/src/main/java/org/a/Core.java make 1, core/src/test/java/org/a/Fixture.java Fixture 1
odd/Elsewhere.java: core/src/main/java/org/a/util/Consts.java MAX 1, core/src/main/java/org/a/util/Helper.java Helper 0
`,
	}})
}
