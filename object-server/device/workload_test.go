package device

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// history is a random row of writes. Everything about it follows from its
// fields, but for the order in which writers come to the log.
type history struct {
	seed    uint64
	writers int    // each with names of its own
	changes int    // altogether
	ticks   uint64 // of the first write
	raises  bool   // the part power is raised meanwhile, more than once

	versions bool // names have versions, and old null versions are kept
}

// historyParts is how many processes write a history, one after the other.
const historyParts = 3

// part is what one of them writes. It goes on at the time at which the one before it
// has ended.
func (h history) part(i int) history {
	h.seed += uint64(i) << 32
	h.changes /= historyParts
	h.ticks += uint64(i * h.changes)
	return h
}

// kinds are what a history is made of; twice means twice as often.
var kinds = []string{"put", "put", "post", "delete", "put", "put", "post", "delete", "compact"}

// run writes the history to a device. Refusals that the model knows to be right
// are no error.
func (h history) run(d *Device, m *model) error {
	names := len(modelNames) / h.writers
	if h.versions { // long chains rather than many
		names = 1
	}
	var group sync.WaitGroup
	failed := make(chan error, h.writers)
	for w := range h.writers {
		group.Add(1)
		go func() {
			defer group.Done()
			rng := rand.New(rand.NewPCG(h.seed, uint64(w)))
			for i := range h.changes / h.writers {
				c := change{
					kind:  kinds[rng.IntN(len(kinds))],
					name:  modelNames[w+h.writers*rng.IntN(names)],
					ticks: h.ticks + uint64(1+i+rng.IntN(3)), // some come late
				}
				if h.raises && rng.IntN(3) == 0 {
					c = change{kind: "raise"}
				}
				var err error
				if h.versions && c.kind != "raise" {
					err = m.doVersion(d, c.name, versionChangeAt(rng, c.ticks))
				} else {
					err = m.do(d, c)
				}
				if err != nil {
					failed <- fmt.Errorf("%+v: %w", c, err)
					return
				}
			}
		}()
	}
	group.Wait()
	close(failed)
	return <-failed
}
