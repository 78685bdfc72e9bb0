package workers

import (
	"sync"
	"testing"
)

func TestWorkersRunAllCallsAtOnce(t *testing.T) {
	w := New()
	for range 3 { // the later rounds also use workers of the first
		var all, done sync.WaitGroup
		all.Add(50)
		done.Add(50)
		for range 50 {
			w.Run(func() {
				defer done.Done()
				all.Done()
				all.Wait() // ends only when all have begun
			})
		}
		done.Wait()
	}
}

func TestWorkersDoNotAllWait(t *testing.T) {
	w := New()
	var all sync.WaitGroup
	all.Add(2 * idleMax)
	ended := make(chan struct{}, 2*idleMax)
	for range 2 * idleMax {
		go func() {
			w.serve(func() {
				all.Done()
				all.Wait()
			})
			ended <- struct{}{}
		}()
	}
	for range idleMax { // workers that find idleMax others waiting end
		<-ended
	}
}
