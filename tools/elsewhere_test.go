package tools_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder/internal/timed"
	"github.com/aycoder/aycoder/remote"
	"github.com/aycoder/aycoder/tools"
	"github.com/aycoder/aycoder/workspace"
)

const (
	servedVar    = "AYCODER_TEST_SERVED"    // the directory that this process serves
	elsewhereVar = "AYCODER_TEST_ELSEWHERE" // the tests use a connection
)

// TestMain lets the test binary serve a workspace, or test the tools with one that is served.
func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(servedVar); ok {
		os.Unsetenv(servedVar)
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(elsewhereVar) != "" {
		tools.Elsewhere = elsewhere
	}
	os.Exit(m.Run())
}

func serve(dir string) error {
	ws, err := workspace.Open(dir)
	if err != nil {
		return err
	}
	e, err := tools.LocalExec()
	if err != nil {
		return err
	}
	return remote.Serve(context.Background(), os.Stdin, os.Stdout, ws, e)
}

// elsewhere starts a process that serves the directory of a workspace.
func elsewhere(t testing.TB, ws *workspace.Workspace) (tools.FS, tools.Exec) {
	cmd := exec.Command(os.Args[0])
	if os.Getenv(elsewhereVar) == "container" {
		cmd = exec.Command("bwrap", contained(ws.Dir())...)
	}
	cmd.Env = append(os.Environ(), servedVar+"="+ws.Dir())
	c, err := remote.Start(t.Context(), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return sharing{c, ws.Seen()}, c
}

// contained returns the arguments with which bwrap serves a directory in a root that has nothing else
// of this machine but programs and libraries.
func contained(dir string) []string {
	args := []string{"--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--bind", dir, dir, "--ro-bind", os.Args[0], "/serve"}
	for _, d := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/passwd"} {
		if _, err := os.Stat(d); err == nil {
			args = append(args, "--ro-bind", d, d)
		}
	}
	return append(args, "/serve")
}

// sharing is files whose record is that of the workspace with which a test looks at them.
type sharing struct {
	tools.RemoteFS
	seen *workspace.SeenFiles
}

func (s sharing) Seen() *workspace.SeenFiles { return s.seen }

func (s sharing) Writable(name string) error {
	return s.RemoteFS.(interface{ Writable(name string) error }).Writable(name)
}

func (s sharing) Within(ctx context.Context) tools.FS {
	return sharing{s.RemoteFS.Within(ctx).(tools.RemoteFS), s.seen}
}

func (s sharing) Ahead(ctx context.Context, name string, ignored []byte) tools.FS {
	return sharing{s.RemoteFS.Ahead(ctx, name, ignored).(tools.RemoteFS), s.seen}
}

func (s sharing) OpenFiles(ctx context.Context, names []string) iter.Seq2[fs.File, error] {
	return s.RemoteFS.OpenFiles(ctx, names)
}

// sameElsewhere are the tests that need no more than what a connection has: all but those that give the
// tools options of this machine, or look into them.
var sameElsewhere = []string{
	"TestConformance", "TestPathCases", "TestOwnPaths", "TestOwnPathsAreReal", "TestOwnEdits", "TestOwnRobust",
	"TestRobustEdits", "TestRobustBash", "TestRobustBackground", "TestRobustnessCases",
	"TestPatch.*", "TestEdit", "TestEditRefuses", "TestEditCreates", "TestEditKeepsModeAndLink", "TestParallelEdits",
	"TestEditBounded", "TestMultiEdit.*", "TestWriteFile.*", "TestStaleEdits", "TestUserSavesDuringTheApproval",
	"TestSavesAtRandomMoments", "TestRead", "TestReadHugeFile", "TestReadRefuses", "TestList", "TestCodeSearch", "TestGlob",
	"TestBash", "TestBashCancel", "TestDirectoryIsKept", "TestDirectoryIsGone", "TestWorkingDir", "TestParallelDirectories",
	"TestJobs", "TestOutputIsBounded", "TestLongScripts", "TestManyCallsCancelled", "TestTemporaryFilesAreHidden", "TestMoveKeepsMode",
	"TestUnseenFile.*", "TestSeenOtherwise", "TestQuotedLinesAreThoseOfTheFile", "TestStartFilesBehindLinks", "TestStoresAreNotWritten",
}

// TestElsewhere runs the tests of the tools with a workspace that another process serves, and once more
// with a server in a separate root, where processes have other numbers than TestBashCancel would
// look for. With AYCODER_ELSEWHERE=all, all of sameElsewhere run, otherwise a few.
func TestElsewhere(t *testing.T) {
	timed.Long(t, "the tests of the tools, over a connection")
	if tools.Elsewhere != nil {
		t.Skip("this is one of them")
	}
	t.Parallel()
	all := os.Getenv("AYCODER_ELSEWHERE") == "all"
	for _, where := range []string{"process", "container"} {
		t.Run(where, func(t *testing.T) {
			tests, least := sameElsewhere, 100
			if where == "container" {
				tests = slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return name == "TestBashCancel" })
				if timed.Reduced(t) {
					t.Skip("left out with the race detector: the code is that of the process")
				}
				if out, err := exec.Command("bwrap", append(contained(t.TempDir()), "-test.list=none")...).CombinedOutput(); err != nil {
					t.Skipf("bwrap does not work here: %v %s", err, out)
				}
			}
			if !all {
				tests, least = []string{"TestPatch.*", "TestMultiEdit.*", "TestList", "TestCodeSearch", "TestGlob"}, 20
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+strings.Join(tests, "|")+")$")
			cmd.Env = append(os.Environ(), elsewhereVar+"="+where, "GORACE=atexit_sleep_ms=0") // it sleeps a second otherwise
			out, err := cmd.CombinedOutput()
			passed := len(regexp.MustCompile(`(?m)^\s*--- PASS`).FindAll(out, -1))
			others := regexp.MustCompile(`(?m)^\s*--- (FAIL|SKIP).*$`).FindAll(out, -1)
			t.Logf("%d tests passed; others: %q", passed, others)
			require.NoError(t, err, "%s", out)
			require.GreaterOrEqual(t, passed, least)
		})
	}
}
