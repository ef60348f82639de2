package resolve_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/aycoder/aycoder/internal/timed"
)

// Each layout is one that the documentation of a packaging tool describes; the targets follow from PEP 420 and
// from where the tool says that modules are.
func TestPythonLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		files string
		want  map[string]string
	}{
		"flat package, relative and absolute": {`
-- app/__init__.py --
from .core import run
-- app/core.py --
from . import util
from .sub import thing, other
from .sub.deep import *
import app.util as u
from ..above import x
-- app/util.py --
import json, os.path
import app.core, app.sub.deep
-- app/sub/__init__.py --
thing = 1
-- app/sub/other.py --
from ... import beyond
-- app/sub/deep.py --
from .. import core
`, map[string]string{
			"app/__init__.py": "app/core.py",
			"app/core.py":     "app/util.py app/sub/__init__.py app/sub/other.py app/sub/deep.py app/util.py",
			"app/util.py":     "app/core.py app/sub/deep.py", "app/sub/deep.py": "app/core.py", "app/sub/other.py": "",
		}},
		"src layout without configuration": {`
-- src/pkg/__init__.py --
-- src/pkg/a.py --
-- tests/test_a.py --
from pkg import a
from pkg.a import f
`, map[string]string{"tests/test_a.py": "src/pkg/a.py src/pkg/a.py"}},
		"setuptools package-dir": {`
-- pyproject.toml --
[tool.setuptools.package-dir]
"" = "python" # the sources
-- python/pkg/__init__.py --
-- check.py --
import pkg
`, map[string]string{"check.py": "python/pkg/__init__.py"}},
		"setuptools inline package-dir": {`
-- pyproject.toml --
[tool.setuptools]
package-dir = {"" = "lib"}
-- lib/pkg.py --
-- tests/check.py --
import pkg
`, map[string]string{"tests/check.py": "lib/pkg.py"}},
		"setup.py": {`
-- sub/setup.py --
setup(name="x", package_dir={"": "code"}, packages=find_packages("code"))
-- sub/code/pkg/__init__.py --
-- sub/tests/check.py --
import pkg
`, map[string]string{"sub/tests/check.py": "sub/code/pkg/__init__.py"}},
		"setup.cfg": {`
-- setup.cfg --
[options]
package_dir =
    = code
[options.packages.find]
where = code
-- code/pkg/__init__.py --
-- tests/check.py --
import pkg
`, map[string]string{"tests/check.py": "code/pkg/__init__.py"}},
		"poetry": {`
-- pyproject.toml --
[tool.poetry]
packages = [
  { include = "pkg", from = "lib" }, # one
  { include = "more", from = "lib2" },
]
-- lib/pkg/__init__.py --
-- lib2/more/__init__.py --
-- tests/check.py --
import pkg, more
`, map[string]string{"tests/check.py": "lib/pkg/__init__.py lib2/more/__init__.py"}},
		"hatch": {`
-- pyproject.toml --
[tool.hatch.build.targets.wheel]
packages = ["source/pkg"]
-- source/pkg/__init__.py --
-- tests/check.py --
import pkg
`, map[string]string{"tests/check.py": "source/pkg/__init__.py"}},
		"pytest.ini": {`
-- pytest.ini --
[pytest]
pythonpath = helpers .
-- helpers/fixtures.py --
-- tests/deep/test_a.py --
import fixtures
`, map[string]string{"tests/deep/test_a.py": "helpers/fixtures.py"}},
		"workspace of several projects": {`
-- pyproject.toml --
[tool.uv.workspace]
members = ["packages/*"]
-- packages/a/pyproject.toml --
[project]
name = "a"
-- packages/a/src/a/__init__.py --
from b.core import f
import tests
-- packages/b/pyproject.toml --
[project]
name = "b"
-- packages/b/b/__init__.py --
-- packages/b/b/core.py --
-- packages/b/tests/__init__.py --
-- packages/b/tests/test_b.py --
from tests.helpers import h
from b import core
-- packages/b/tests/helpers.py --
-- packages/a/tests/__init__.py --
-- packages/a/tests/test_a.py --
from tests.helpers import h
-- packages/a/tests/helpers.py --
`, map[string]string{
			"packages/a/src/a/__init__.py": "packages/b/b/core.py packages/a/tests/__init__.py",
			"packages/b/tests/test_b.py":   "packages/b/tests/helpers.py packages/b/b/core.py",
			"packages/a/tests/test_a.py":   "packages/a/tests/helpers.py",
		}},
		"namespace package over several roots": {`
-- one/pyproject.toml --
-- one/src/space/one/__init__.py --
from space.two import thing
from ..two.deep import x
import space, two
-- two/pyproject.toml --
-- two/src/space/two/__init__.py --
-- two/src/space/two/deep.py --
from space import one
`, map[string]string{
			"one/src/space/one/__init__.py": "two/src/space/two/__init__.py two/src/space/two/deep.py",
			"two/src/space/two/deep.py":     "one/src/space/one/__init__.py",
		}},
		"scripts and what is beside them": {`
-- tools/run.py --
import helper, json, token
-- tools/helper.py --
-- tools/json.py --
-- tools/token.py --
-- pkg/__init__.py --
-- pkg/openai.py --
-- pkg/azure.py --
import openai
-- pkg/main.py --
import openai
if __name__ == "__main__":
    pass
`, map[string]string{"tools/run.py": "tools/helper.py", "pkg/azure.py": "", "pkg/main.py": "pkg/openai.py"}},
		"service in a directory of its own": {`
-- backend/app/__init__.py --
-- backend/app/api/__init__.py --
-- backend/app/api/routes.py --
from app.core import db
-- backend/app/core.py --
-- backend/tests/test_api.py --
from app import core
-- backend/requirements.txt --
`, map[string]string{"backend/app/api/routes.py": "backend/app/core.py", "backend/tests/test_api.py": "backend/app/core.py"}},
		"service without any configuration": {`
-- backend/app/__init__.py --
from app.core import db
import app2
-- backend/app/core.py --
-- backend/app2/__init__.py --
`, map[string]string{"backend/app/__init__.py": "backend/app/core.py"}},
		"stubs": {`
-- fast/__init__.py --
from .native import f
from .both import g
-- fast/native.pyi --
-- fast/both.py --
-- fast/both.pyi --
`, map[string]string{"fast/__init__.py": "fast/native.pyi fast/both.py"}},
		"a name in __init__ before a submodule": {`
-- p/__init__.py --
from .x import x
from . import y
-- p/x.py --
-- p/y.py --
-- q.py --
from p import x, y, z
-- p/z/a.py --
`, map[string]string{"q.py": "p/__init__.py", "p/__init__.py": "p/x.py p/y.py"}},
		"root directories of tests are not modules of others": {`
-- pyproject.toml --
-- tests/requests/__init__.py --
-- tests/unit/test_a.py --
import requests
-- src/mine/__init__.py --
-- src/mine/client.py --
import requests
`, map[string]string{"tests/unit/test_a.py": "", "src/mine/client.py": ""}},
	} {
		t.Run(name, func(t *testing.T) { requireImports(t, layout(c.files), c.want) })
	}
}

// References go to the file that declares a name, through everything that exports it again.
func TestPythonRefs(t *testing.T) {
	requireRefs(t, layout(`
-- app/__init__.py --
from .models import User, make as build
from .shapes import *
from . import tools
-- app/models.py --
class User: pass
def make(): return User()
-- app/shapes/__init__.py --
from .round import *
from .flat import Square
-- app/shapes/round.py --
class Circle: pass
def _hidden(): pass
-- app/shapes/flat.py --
class Square: pass
-- app/tools.py --
def hammer(): pass
-- main.py --
import app
import app.shapes.round as r
import app.shapes.flat
from app import User, build, Circle, tools, _hidden
from missing import nothing
from app.shapes import Square as S
def f(User: int): return User
x: User = build(Circle())
y = User(tools.hammer, tools.unknown)
z = app.shapes.flat.Square, r.Circle, app.Square, nothing
-- loop/a.py --
from .b import x
-- loop/b.py --
from .a import x
-- star.py --
from app.models import *
from app.shapes import *
User(Square, len)
`), map[string][]string{
		"main.py": {
			"app/__init__.py  0", "app/models.py User 2", "app/models.py make 1", "app/shapes/flat.py  0", "app/shapes/flat.py Square 2",
			"app/shapes/round.py  0", "app/shapes/round.py Circle 2", "app/tools.py  1", "app/tools.py hammer 1",
		},
		"loop/a.py": {"loop/b.py  0"},
		"star.py":   {"app/models.py User 1", "app/shapes/flat.py Square 1"},
	})
}

func TestPythonSameAfterEdits(t *testing.T) {
	timed.Serial(t)
	requireSameAfterEdits(t, `
-- pyproject.toml --
[tool.setuptools.packages.find]
where = ["lib"]
-- lib/space/one/__init__.py --
from .a import f as g
from space.two import *
h(g, k)
-- lib/space/one/a.py --
from . import b
import space.two.c
def f(): return space.two.c.k()
-- lib/space/one/b.py --
-- lib/space/__init__.py --
-- src/space/two/__init__.py --
from .c import k
def h(): pass
-- src/space/two/c.py --
from space.one import b, g
def k(): g(b)
-- src/space/setup.py --
-- tests/conftest.py --
-- tests/space.py --
-- tests/test_a.py --
import space
from space.one import g
g(space)
-- tests/__init__.py --
`, 60)
}

// The names of Python's library are those that Python itself has.
func TestPythonLibrary(t *testing.T) {
	timed.Serial(t)
	out, err := exec.CommandContext(t.Context(), "python3", "-c",
		"import sys; print(*[n for n in sys.stdlib_module_names if n[0] != '_' and n not in ('antigravity', 'this', 'idlelib')])").Output()
	if err != nil {
		t.Skip("python3 is not installed: there is nothing to compare with")
	}
	files, script := "", "-- dir/main.py --\n"
	for name := range strings.FieldsSeq(string(out)) {
		files += "-- dir/" + name + ".py --\n"
		script += "import " + name + "\n"
	}
	requireImports(t, layout(files+script), map[string]string{"dir/main.py": ""})
}
