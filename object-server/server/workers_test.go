package server

import (
	"sync"
	"testing"
)

func TestWorkersRunAllCallsAtOnce(t *testing.T) {
	w := newWorkers()
	for range 3 { // also those that are there already
		var all, done sync.WaitGroup
		all.Add(50)
		done.Add(50)
		for range 50 {
			w.run(func() {
				defer done.Done()
				all.Done()
				all.Wait() // ends only when all have begun
			})
		}
		done.Wait()
	}
}
