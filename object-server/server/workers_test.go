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

func TestWorkersDoNotAllWait(t *testing.T) {
	w := newWorkers()
	var all sync.WaitGroup
	all.Add(2 * workersIdleMax)
	ended := make(chan struct{}, 2*workersIdleMax)
	for range 2 * workersIdleMax {
		go func() {
			w.serve(func() {
				all.Done()
				all.Wait()
			})
			ended <- struct{}{}
		}()
	}
	for range workersIdleMax { // those that find so many waiting
		<-ended
	}
}
