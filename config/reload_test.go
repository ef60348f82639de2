package config_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aycoder/aycoder"
	"github.com/aycoder/aycoder/config"
)

// A handClock is set forward by a test.
type handClock struct {
	aycoder.Clock
	now time.Time
}

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) pass(d time.Duration) { c.now = c.now.Add(d) }

// A saver changes a file at the time of its clock.
type saver struct {
	t     *testing.T
	clock *handClock
	name  string
	r     *config.Reloader
}

const turns = "[agent]\nmax_turns = %d\n"

func newSaver(t *testing.T, opts ...config.Option) *saver {
	t.Helper()
	s := &saver{t: t, clock: &handClock{aycoder.SystemClock(), time.Now()}, name: filepath.Join(t.TempDir(), "config.toml")}
	s.write(s.name, fmt.Sprintf(turns, 10))
	s.clock.pass(time.Hour)
	opts = append(opts, config.WithUserFile(s.name), config.WithCatalog(known), config.WithClock(s.clock))
	var err error
	s.r, err = config.NewReloader(opts...)
	require.NoError(t, err)
	require.Nil(t, s.r.Check())
	return s
}

func (s *saver) write(name, text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(name, []byte(text), 0o600))
	s.touch(name, s.clock.now)
}

func (s *saver) touch(name string, at time.Time) {
	s.t.Helper()
	require.NoError(s.t, os.Chtimes(name, at, at))
}

func (s *saver) turns() int { return s.r.Current().Config.Agent.MaxTurns }

// settled checks that a change takes effect once, and only after half a second.
func (s *saver) settled(want int) {
	s.t.Helper()
	assert.Nil(s.t, s.r.Check())
	s.clock.pass(600 * time.Millisecond)
	c := s.r.Check()
	require.NotNil(s.t, c)
	require.NoError(s.t, c.Err)
	assert.Equal(s.t, []string{"agent.max_turns"}, c.Keys)
	assert.Same(s.t, s.r.Current(), c.Loaded)
	assert.Equal(s.t, want, s.turns())
	for range 3 {
		assert.Nil(s.t, s.r.Check())
		s.clock.pass(time.Hour)
	}
}

// Each way in which programs save a file is one reload of its last state.
func TestSaves(t *testing.T) {
	next := fmt.Sprintf(turns, 20)
	tests := map[string]func(s *saver){
		"in place": func(s *saver) { s.write(s.name, next) },
		"rename": func(s *saver) {
			s.write(s.name+"~", next)
			require.NoError(s.t, os.Rename(s.name+"~", s.name))
		},
		"rename of an old file": func(s *saver) {
			s.write(s.name+"~", next)
			s.touch(s.name+"~", s.clock.now.Add(-time.Hour))
			require.NoError(s.t, os.Rename(s.name+"~", s.name))
			s.unlessStamped()
		},
		"two steps": func(s *saver) {
			s.write(s.name, "")
			assert.Nil(s.t, s.r.Check())
			s.clock.pass(400 * time.Millisecond)
			assert.Nil(s.t, s.r.Check())
			s.write(s.name, next[:9])
			s.clock.pass(400 * time.Millisecond)
			assert.Nil(s.t, s.r.Check())
			s.write(s.name, next)
		},
		"removed and created": func(s *saver) {
			require.NoError(s.t, os.Remove(s.name))
			assert.Nil(s.t, s.r.Check())
			s.clock.pass(300 * time.Millisecond)
			s.write(s.name, next)
		},
		"100 saves": func(s *saver) {
			for i := range 100 {
				s.write(s.name, fmt.Sprintf(turns, 100+i))
				s.clock.pass(10 * time.Millisecond)
				assert.Nil(s.t, s.r.Check())
			}
			s.write(s.name, next)
		},
		"equal length and equal time, while it is young": func(s *saver) {
			at := s.clock.now
			s.write(s.name, fmt.Sprintf(turns, 15))
			s.clock.pass(600 * time.Millisecond)
			require.NotNil(s.t, s.r.Check())
			require.Equal(s.t, 15, s.turns())
			s.write(s.name, next)
			s.touch(s.name, at)
			s.clock.now = time.Now() // where the system's own stamp tells of it
		},
		"equal length and equal time, after an hour": func(s *saver) {
			info, err := os.Stat(s.name)
			require.NoError(s.t, err)
			s.write(s.name, next)
			s.touch(s.name, info.ModTime())
			s.unlessStamped()
		},
		"symbolic link": func(s *saver) {
			s.write(filepath.Join(s.t.TempDir(), "next"), next)
			other := write(s.t, filepath.Join(s.t.TempDir(), "other"), next)
			s.touch(other, s.clock.now)
			require.NoError(s.t, os.Symlink(other, s.name+"~"))
			require.NoError(s.t, os.Rename(s.name+"~", s.name))
		},
		"vi": func(s *saver) {
			vi, err := exec.LookPath("vi")
			if err != nil {
				s.t.Skip("no vi to save a file with")
			}
			out, err := exec.Command(vi, "-e", "-s", "-c", "%s/10/20/", "-c", "wq", s.name).CombinedOutput()
			if err != nil {
				s.t.Skipf("vi cannot be used without a terminal: %v %s", err, out)
			}
			s.touch(s.name, s.clock.now)
		},
	}
	for name, save := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSaver(t)
			save(s)
			s.settled(20)
		})
	}
}

// unlessStamped skips where the system does not tell when the state of a file changed.
func (s *saver) unlessStamped() {
	if runtime.GOOS != "linux" {
		s.t.Skip("only Linux tells of a change that leaves size and time as they were")
	}
	s.clock.now = time.Now() // the system's own stamp is of now
}

func TestVanishedFileKeepsItsValues(t *testing.T) {
	s := newSaver(t)
	require.NoError(t, os.Remove(s.name))
	assert.Nil(t, s.r.Check())
	s.clock.pass(time.Second)
	c := s.r.Check()
	require.NotNil(t, c)
	require.NoError(t, c.Err)
	assert.Empty(t, c.Keys)
	assert.Equal(t, 10, s.turns())
	assert.Contains(t, texts(c.Loaded), "has vanished, and its last values stay")
	s.clock.pass(time.Hour)
	assert.Nil(t, s.r.Check())
	s.write(s.name, fmt.Sprintf(turns, 30))
	s.settled(30)
	assert.Empty(t, texts(s.r.Current()))
}

func TestFileThatAppears(t *testing.T) {
	s := newSaver(t, config.WithManagedFile(filepath.Join(t.TempDir(), "managed.toml")))
	dir := t.TempDir()
	s2 := &saver{t: t, clock: s.clock, name: filepath.Join(dir, "late.toml")}
	var err error
	s2.r, err = config.NewReloader(config.WithUserFile(s2.name), config.WithClock(s.clock))
	require.NoError(t, err)
	s2.write(s2.name, fmt.Sprintf(turns, 40))
	s2.settled(40)
}

func TestInvalidFileKeepsTheLastConfiguration(t *testing.T) {
	s := newSaver(t)
	s.write(s.name, "[agent]\nmax_turns = 0\n")
	s.clock.pass(time.Second)
	before := s.r.Current()
	c := s.r.Check()
	require.NotNil(t, c)
	var invalid *config.InvalidError
	require.ErrorAs(t, c.Err, &invalid)
	assert.Equal(t, 2, invalid.Diagnostics[0].Line)
	assert.Same(t, before, c.Loaded)
	assert.Same(t, before, s.r.Current())
	s.clock.pass(time.Hour)
	assert.Nil(t, s.r.Check(), "it is reported once")
	s.write(s.name, fmt.Sprintf(turns, 20))
	s.settled(20)
}

// A hook of a project goes off when its script changes, and on when the user answers.
func TestReloadAfterTrust(t *testing.T) {
	p := newProject(t, "[[hooks]]\nevent = \"Stop\"\ncommand = \"./done.sh\"\n")
	p.write("done.sh", "true")
	p.accept()
	s := newSaver(t, p.opts...)
	require.Len(t, s.r.Current().Config.Hooks, 1)
	s.write(filepath.Join(p.dir, "done.sh"), "evil")
	s.clock.pass(time.Second)
	c := s.r.Check()
	require.NotNil(t, c)
	assert.Equal(t, []string{"hooks"}, c.Keys)
	assert.Empty(t, s.r.Current().Config.Hooks)
	require.Len(t, c.Loaded.Questions, 1)
	require.NoError(t, p.trust.Decide(t.Context(), c.Loaded.Questions[0], true))
	c = s.r.Check()
	require.NotNil(t, c, "an answer is written as a whole, and counts at once")
	assert.Equal(t, []string{"hooks"}, c.Keys)
	assert.Len(t, s.r.Current().Config.Hooks, 1)
}

// A file of a project that never rests, by an agent or a log, does not keep back what the user changes.
func TestProjectKeepsNothingBack(t *testing.T) {
	for _, name := range []string{config.ProjectFile, "busy.log"} {
		before := map[string]string{
			"busy.log": "x", config.ProjectFile: "agent.max_calls = 5\n[[hooks]]\nevent = \"Stop\"\ncommand = \"tail busy.log\"\n",
		}
		p := newProject(t, before[config.ProjectFile])
		p.write("busy.log", before["busy.log"])
		p.accept()
		s := newSaver(t, p.opts...)
		require.Equal(t, 5, s.r.Current().Config.Agent.MaxCalls)
		s.write(s.name, fmt.Sprintf(turns, 20))
		s.r.Check()
		s.clock.pass(time.Second)
		s.write(filepath.Join(p.dir, name), "half of it")
		s.r.Check()
		require.Equal(t, 20, s.turns())
		s.write(filepath.Join(p.dir, name), before[name]) // as it was
		s.r.Check()
		s.clock.pass(time.Second)
		s.r.Check()
		assert.Empty(t, s.r.Current().Questions, name)
		assert.Equal(t, 5, s.r.Current().Config.Agent.MaxCalls)
		assert.Len(t, s.r.Current().Config.Hooks, 1)

		s.write(s.name, fmt.Sprintf(turns, 30))
		for i := range 20 {
			s.write(filepath.Join(p.dir, name), fmt.Sprintf("# %d\nagent.max_calls = 5\n", i))
			s.r.Check()
			s.clock.pass(300 * time.Millisecond)
		}
		assert.Equal(t, 30, s.turns(), name)
		s.clock.pass(time.Second)
		s.r.Check()
		require.NotEmpty(t, s.r.Current().Questions, "the last state of the project counts, too")
	}
}

// A turn sees one configuration, whatever is saved meanwhile.
func TestTurnsSeeWholeConfigurations(t *testing.T) {
	s := newSaver(t)
	stop, done := make(chan struct{}), make(chan struct{})
	text := func(n int) string {
		return fmt.Sprintf(turns, n) + strings.Repeat("# filler\n", 500) + fmt.Sprintf("max_calls = %d\n", n)
	}
	go func() {
		defer close(done)
		for n := 1; ; n = n%200 + 1 {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(s.name, []byte(text(n)), 0o600)
			}
		}
	}()
	for range 200 {
		s.clock.now = time.Now() // a clock that runs faster than that of the files would take half-written ones
		s.r.Check()
		seen := s.r.Current()
		first := seen.Config
		assert.True(t, first.Agent.MaxTurns == first.Agent.MaxCalls || first.Agent.MaxTurns == 10, first.Agent)
		assert.Equal(t, first, seen.Config)
	}
	close(stop)
	<-done
	s.write(s.name, text(77))
	s.clock.pass(time.Second)
	s.r.Check()
	assert.Equal(t, 77, s.turns())
}

func TestWatch(t *testing.T) {
	name := file(t, fmt.Sprintf(turns, 10))
	synctest.Test(t, func(t *testing.T) {
		r, err := config.NewReloader(config.WithUserFile(name), config.WithCatalog(known))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		signal := make(chan struct{})
		var seen []int
		var at []time.Duration
		start := time.Now()
		go func() {
			for c := range r.Watch(ctx, signal) {
				seen = append(seen, c.Loaded.Config.Agent.MaxTurns)
				at = append(at, time.Since(start))
			}
			seen = append(seen, -1)
		}()
		time.Sleep(5500 * time.Millisecond)
		write(t, name, fmt.Sprintf(turns, 20))
		time.Sleep(3 * time.Second) // it is seen after 6 s, and rests after 7 s
		write(t, name, fmt.Sprintf(turns, 30))
		signal <- struct{}{} // it is seen at 8.5 s
		time.Sleep(600 * time.Millisecond)
		signal <- struct{}{} // and rests at 9.1 s
		synctest.Wait()
		close(signal)
		time.Sleep(3 * time.Second)
		cancel()
		synctest.Wait()
		assert.Equal(t, []int{20, 30, -1}, seen)
		assert.Equal(t, []time.Duration{7 * time.Second, 9100 * time.Millisecond}, at)
	})
}
