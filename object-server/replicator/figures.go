package replicator

import (
	"time"

	"martlet/object-server/ring"
)

// Finished is a pass over one device for one policy that has ended.
type Finished struct {
	Began, Ended time.Time
	Report       Report
}

func (r *Replicator) finish(what work, done Finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[what] = done
}

// Stats are the figures of passes as recon shows them: the names of OpenStack Swift first.
type Stats struct {
	Attempted int     `json:"attempted"`
	Success   int     `json:"success"`
	Failure   int     `json:"failure"`
	Remove    int     `json:"remove"`
	Start     float64 `json:"start"` // of the earliest of the passes

	Partitions int   `json:"partitions"`
	InSync     int   `json:"in_sync"`
	Handoffs   int   `json:"handoffs"` // that are left
	Sent       int   `json:"sent"`
	Bytes      int64 `json:"bytes"`
	Fetched    int   `json:"fetched"`
	Damaged    int   `json:"damaged"`
	Doubtful   int   `json:"doubtful"`
	Unfinished int   `json:"unfinished"` // devices, for a policy each, that no pass of this process has finished
}

func (s *Stats) add(done *Finished) {
	report := &done.Report
	s.Attempted += report.Partitions
	s.Success += report.InSync
	s.Failure += report.Failures
	s.Remove += report.GivenBack
	if began := seconds(done.Began); s.Start == 0 || began < s.Start {
		s.Start = began
	}
	s.Partitions += report.Partitions
	s.InSync += report.InSync
	s.Handoffs += report.Handoffs - report.GivenBack
	s.Sent += report.Sent
	s.Bytes += report.Bytes
	s.Fetched += report.Fetched
	s.Damaged += report.Damaged
	s.Doubtful += report.Doubtful
}

// Figures returns the last passes over the devices of this host by the keys of Swift's recon; empty if the rings have no
// device of it. While one device has had no pass, the times are left out: those of an earlier process stay. The time of the
// last pass is that of the device whose pass ended first.
func (r *Replicator) Figures() map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	var total Stats
	var longest time.Duration
	var oldest time.Time
	disks := map[string]any{}
	err := r.eachDevice(func(_ *ring.Ring, policy int, d *ring.Device) {
		done, ok := r.last[work{d.Name, policy}]
		if !ok {
			total.Unfinished++
			return
		}
		total.add(&done)
		longest = max(longest, done.Ended.Sub(done.Began))
		if oldest.IsZero() || done.Ended.Before(oldest) {
			oldest = done.Ended
		}
		disks[d.Name] = diskFigures(disks[d.Name], &done)
	})
	if err != nil { // of a ring that cannot be read the devices are not known
		total.Failure++
		total.Unfinished++
	}
	if total.Unfinished == 0 && len(disks) == 0 {
		return nil
	}
	figures := map[string]any{"replication_stats": total}
	if len(disks) > 0 {
		figures["object_replication_per_disk"] = disks
	}
	if total.Unfinished == 0 {
		addTimes(figures, longest, oldest)
	}
	return figures
}

// diskFigures are those of a device, with the policies before.
func diskFigures(before any, done *Finished) map[string]any {
	figures, _ := before.(map[string]any)
	if figures == nil {
		figures = map[string]any{"replication_stats": &Stats{}}
	}
	figures["replication_stats"].(*Stats).add(done)
	addTimes(figures, done.Ended.Sub(done.Began), done.Ended)
	return figures
}

// addTimes adds the times of passes. As in Swift, a duration is in minutes.
func addTimes(figures map[string]any, took time.Duration, ended time.Time) {
	for _, prefix := range []string{"", "object_"} {
		figures[prefix+"replication_time"] = took.Minutes()
		figures[prefix+"replication_last"] = seconds(ended)
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
