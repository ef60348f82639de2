package tools

import (
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// progressEvery is the interval at which a long call reports its progress.
const progressEvery = 200 * time.Millisecond

// watch reports the progress of a call periodically until stop is called. It calls now
// from another goroutine.
func watch(inv *invocation, now func() aycoder.Progress) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				inv.Progress(now())
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}
