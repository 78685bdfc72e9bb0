package updates

import (
	"cmp"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// saidPause is how long the log says nothing more about a container whose rows still wait.
	saidPause = 5 * time.Minute
	// saidMax bounds the lines in a saidPause, for all containers of a device together.
	saidMax = 50
)

// Waiting is what is pending for one container.
type Waiting struct {
	Account   string  `json:"account"`
	Container string  `json:"container"`
	Rows      int     `json:"rows"`
	OldestAge float64 `json:"oldest_age"` // seconds since the oldest of these writes
	Reason    string  `json:"reason"`     // why the last attempt failed, and at which server

	oldest float64 // Unix time, seconds
}

// Figures are what is pending in several containers.
type Figures struct {
	Rows       int
	Unsaved    int       // of them, in memory alone
	Damaged    int       // files with damage
	OldestAge  float64   // seconds since the oldest write; 0 if nothing is pending
	Containers []Waiting // those with the oldest writes first; rows that were not tried yet are in none
}

type containerName struct{ account, container string }

// waitingIn gathers the letters that did not arrive, by container. A row counts once, however many servers miss it.
func waitingIn(letters []*letter) map[containerName]*Waiting {
	found := map[containerName]*Waiting{}
	counted := map[int]bool{}
	for _, l := range letters {
		if l.delivered {
			continue
		}
		name := containerName{l.update.Target.Account, l.update.Target.Container}
		w := found[name]
		if w == nil {
			w = &Waiting{Account: name.account, Container: name.container, oldest: writtenAt(l.update.Row)}
			found[name] = w
		}
		if !counted[l.place] {
			counted[l.place] = true
			w.Rows++
		}
		w.oldest = min(w.oldest, writtenAt(l.update.Row))
		if l.reason != "" {
			w.Reason = l.reason
		}
	}
	return found
}

// writtenAt returns the Unix time of the write that made a row, in seconds; 0 for a row without a time.
func writtenAt(row Row) float64 {
	latest := row.CreatedAt
	if row.MetaTimestamp != nil {
		latest = max(latest, *row.MetaTimestamp) // of fixed width, so that text order is time order
	}
	seconds, err := strconv.ParseFloat(latest[:min(len(latest), len("1795223541.91251"))], 64)
	if err != nil {
		return 0
	}
	return seconds
}

// sum adds the containers of several segments up.
func sum(segments []map[containerName]*Waiting) []Waiting {
	total := map[containerName]*Waiting{}
	for _, containers := range segments {
		for name, w := range containers {
			if known := total[name]; known != nil {
				known.Rows += w.Rows
				known.oldest = min(known.oldest, w.oldest)
				known.Reason = cmp.Or(w.Reason, known.Reason)
				continue
			}
			added := *w
			total[name] = &added
		}
	}
	all := make([]Waiting, 0, len(total))
	now := unixNow()
	for _, w := range total {
		w.OldestAge = max(0, now-w.oldest)
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b Waiting) int {
		return cmp.Or(cmp.Compare(a.oldest, b.oldest), cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.Container, b.Container))
	})
	return all
}

func unixNow() float64 { return float64(time.Now().UnixMicro()) / 1e6 }

// reporter says in the log why rows wait, once in a while for each container. It is safe for concurrent use.
type reporter struct {
	logger *slog.Logger

	mu    sync.Mutex
	since time.Time
	said  map[containerName]bool // since then
}

// report writes a line for each container that none was written for lately.
func (r *reporter) report(containers map[containerName]*Waiting, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.said == nil || now.Sub(r.since) >= saidPause {
		r.since, r.said = now, map[containerName]bool{}
	}
	for name, w := range containers {
		if w.Reason == "" || r.said[name] || len(r.said) > saidMax {
			continue
		}
		r.said[name] = true
		if len(r.said) > saidMax {
			r.logger.Warn("more containers wait for updates, see /recon/async")
			return
		}
		r.logger.Warn("container updates wait", "account", name.account, "container", name.container,
			"rows", w.Rows, "oldest_seconds", int(unixNow()-w.oldest), "reason", w.Reason)
	}
}
