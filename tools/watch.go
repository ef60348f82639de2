package tools

import (
	"sync"
	"time"

	"github.com/aycoder/aycoder"
)

// progressEvery is how often a call that takes long says how far it is.
const progressEvery = 200 * time.Millisecond

// watch reports the progress of a call from time to time until stop is called. Now is
// called from another goroutine.
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
