package source_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/codegraph/source"
	"github.com/stretchr/testify/require"
)

// samples are files with much of what is special in each language.
var samples = map[source.Language]string{
	source.Rust: `//! The crate.
#![deny(missing_docs)]
use std::{fmt, io::{self, Read as _}};
pub(crate) use crate::a::b::{C, d as e, *};
#[cfg(unix)]
#[path = "unix.rs"]
mod imp;
/* nested /* comment */ use not::this; */
/// A type.
#[derive(Debug)]
pub struct S<'a, T: 'a> { pub x: &'a T, c: char }
impl<'a, T> fmt::Display for S<'a, T> where T: Clone {
    /// Shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = r#"a "raw" } string"#; let b = b'{'; let q = '\''; let l: &'static str = "multi
line { ";
        crate::a::write(f, r)?; helper!(x); self::imp::go(|y: u8| y + 1);
        Ok(())
    }
}
macro_rules! helper { ($x:expr) => { use $crate::a::z; }; }
pub trait Tr { const N: usize = 3; fn m(&self) -> [u8; 3] { [0; 3] } fn n(); }
mod inner { use super::S; pub fn f() {} mod deeper { use super::super::S; mod file; } }
extern "C" { fn c(x: i32) -> i32; }
pub const fn r#match() -> impl Fn() + use<'static> { || {} }
static mut G: [u8; 4] = [0; 4];
`,
	source.Java: `/* (c) */
package a.b;
import java.util.*;
import static a.c.K.MAX;
import a.c.D;

/** A class. */
@Ann(value = {1, 2}, name = "x")
public final class Foo<T extends Comparable<T>> extends D implements I {
    private static final int[] XS = {1, 2, 3}, YS;
    Map<String, List<T>> map = new HashMap<>() {{ put("a", null); }};
    public Foo(int x) { this.x = x; }
    @Override public <U> U get(U u, int... rest) throws E { D.call(u); return MAX > 0 ? u : null; }
    abstract int size();
    enum Kind { A(1) { void f() {} }, B, ; int n; Kind() {} }
    record P(int x, int y) { P { check(x); } }
    sealed interface I permits Q {}
    @interface Ann { int[] value() default {}; }
    String text = """
        } " quoted {
        """;
    static { init(); }
}
`,
	source.C: `/* Copyright */
#include <stdio.h>
#include "a/b.h" // beside
#if 0
#include "dead.h"
#else
# include "live.h"
#endif
#define MAX(a, b) \
  ((a) > (b) ? (a) : helper(b))
typedef struct point { int x, y; } point_t, *point_p;
typedef enum { RED, GREEN = 2, } color;
struct fwd;
static const char *names[] = { "a{", "b" }, *other;
int (*callback)(int, void *);
/* Adds. */
extern int add(int a, int b) ATTR(1);
static int old(a, b) int a; char *b; { return a + *b; }
#ifdef X
int branch(int x) {
  if (x) {
#else
int branch(void) {
  if (1) {
#endif
    puts("}\
"); }
  return 'x' + '}';
}
DECLARE_THING(foo)
int *after(struct point *p) { return &p->x + RED; }
#ifdef __cplusplus
namespace n { template <class T> class V : public W<T> {
public:
  V(int a) : W<T>(a), b{a} {}
  ~V();
  bool operator==(const V &o) const { return o.b == b; }
  virtual void f() const = 0;
private: int b;
}; }
template <> void n::V<int>::g(int x) noexcept { auto s = R"x(})" } )x"; }
#endif
`,
	"csharp": `using System;
#region A
namespace A.B {
  /// <summary>Doc</summary>
  [Attr("x")]
  public sealed class Foo<T> : Bar where T : new() {
    public int X { get; set; } = 5;
    private readonly string path = @"c:\dir\" + $"{X} {{";
    public async Task<int> Go(int a) { return await Other.Call(a); }
    public int Y => 3;
    enum E { A, B = 2 }
  }
}
`,
	"kotlin": `package a.b
// A comment
data class P(val x: Int, val y: Int = f({ 1 })) : Q() {
    private val z = """ } raw """
    fun <T> List<T>.go(a: Int): Int {
        return a
    }
    fun short() = 3
}
fun top() { println("}") }
`,
	"ruby": `module A
  # Doc.
  class B < C
    def self.go(x)
      x.map { |y| y + 1 }
    rescue E
      nil
    end

    def one? = true
  end
end
`,
}

// Every token is after the one before it, and nothing but white space is between them.
func checkTokens(t testing.TB, lang source.Language, src []byte) {
	t.Helper()
	end := int32(0)
	for tok := range source.Tokens(lang, src) {
		if tok.Start < end || tok.End <= tok.Start {
			t.Fatalf("a token from %d to %d behind one that ends at %d", tok.Start, tok.End, end)
		}
		for _, c := range src[end:tok.Start] {
			if c > ' ' && (c != '\\' || lang != source.C) { // a backslash joins lines
				t.Fatalf("%q is not part of a token", src[end:tok.Start])
			}
		}
		end = tok.End
	}
}

// The facts of any bytes are in order and in bounds, and those of the imports do not depend on the part.
func checkFacts(t testing.TB, lang source.Language, src []byte) {
	t.Helper()
	n := int32(len(src))
	f := source.Scan(lang, src, source.All)
	for i, d := range f.Decls {
		ok := d.Name != "" && 0 <= d.At.Start && d.At.Start <= d.NameAt && d.NameAt < d.At.End && d.At.End <= n && d.Parent < int32(i)
		if d.Body.Start != d.Body.End {
			ok = ok && d.At.Start < d.Body.Start && d.Body.Start < d.Body.End && d.Body.End <= d.At.End
		}
		if !ok {
			t.Fatalf("%+v in %d bytes", d, n)
		}
	}
	for _, i := range f.Imports {
		if i.At.Start < 0 || i.At.Start > i.At.End || i.At.End > n {
			t.Fatalf("%+v in %d bytes", i, n)
		}
	}
	last := source.Use{}
	for _, u := range f.Uses {
		if u.Count <= 0 || u.Name == "" || u.Of < last.Of || u.Of == last.Of && u.Name <= last.Name {
			t.Fatalf("%+v after %+v", u, last)
		}
		last = u
	}
	part := source.Scan(lang, src, source.ImportsOnly)
	require.Equal(t, f.Imports, part.Imports)
	require.Equal(t, f.Exports, part.Exports)
}

func FuzzBlocks(f *testing.F) {
	langs := []source.Language{source.Rust, source.Java, source.C, "csharp", "kotlin", "ruby", "lua", "shell", "haskell", "unknown"}
	for i, lang := range langs {
		f.Add(uint8(i), []byte(samples[lang]))
	}
	f.Add(uint8(slices.Index(langs, "kotlin")), []byte("  @def A=0\n  end"))
	f.Fuzz(func(t *testing.T, which uint8, src []byte) {
		lang := langs[int(which)%len(langs)]
		checkTokens(t, lang, src)
		checkFacts(t, lang, src)
	})
}

// realFiles returns the files of a language in the directories that are there.
func realFiles(t testing.TB, lang source.Language, dirs ...string) (files map[string][]byte) {
	files = map[string][]byte{}
	size := 0
	for _, dir := range dirs {
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || size > 30<<20 {
				return nil
			}
			if data, err := os.ReadFile(p); err == nil && source.LanguageOf(p, nil) == lang {
				files[p] = data
				size += len(data)
			}
			return nil
		})
	}
	if len(files) == 0 {
		t.Skipf("no %s in %v", lang, dirs)
	}
	return files
}

func BenchmarkBlocks(b *testing.B) {
	for _, lang := range []source.Language{source.Rust, source.Java, source.C, "csharp", "kotlin"} {
		src := []byte(strings.Repeat(samples[lang], 300))
		if dir := os.Getenv("AYCODER_REPOS"); dir != "" {
			src = bytes.Join(slices.Collect(maps.Values(realFiles(b, lang, dir, "/usr/include"))), []byte("\n"))
		}
		for part, name := range map[source.Part]string{source.All: "all", source.ImportsOnly: "imports"} {
			b.Run(fmt.Sprintf("%s/%s", lang, name), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					source.Scan(lang, src, part)
				}
			})
		}
	}
}
