package lifecycle

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/reconcache"
)

// CursorFile is where the job keeps on a device how far it is, as JSON. It is replaced as a whole and never flushed: after a
// power cut a pass may begin anew, and parts of uploads may stay.
const CursorFile = "lifecycle"

// cursorFormat is that of the file. One of another format is as none.
const cursorFormat = 1

// cursor is the content of the file.
type cursor struct {
	Format  int      `json:"format"`
	Pass    progress `json:"pass"`
	Waiting []parts  `json:"waiting,omitempty"`
}

// progress is a pass over a device.
type progress struct {
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"` // zero: it goes on
	After  *unit     `json:"after"`          // the last one that is done; nil: none yet
	Report Report    `json:"report"`         // what was done so far
}

// readCursor reads the file. Without one that can be read a pass begins.
func (d *device) readCursor() *cursor {
	c := &cursor{}
	found, err := background.ReadCursor(filepath.Join(d.root, CursorFile), c)
	if err == nil && found && c.Format != cursorFormat {
		err = errors.New("another format")
	}
	if err != nil {
		d.config.Logger.Warn("a cursor cannot be read, the pass over the device begins anew", "device", d.name, "error", err)
	}
	if err != nil || !found {
		return &cursor{Format: cursorFormat}
	}
	return c
}

// noteEvery is how often the cursor is written while a pass goes on.
var noteEvery = time.Second

// note writes the cursor and the figures, unless that was done a moment ago.
func (d *device) note(isUrgent bool) {
	if !isUrgent && time.Since(d.noted) < noteEvery {
		return
	}
	d.noted = time.Now()
	d.counting.Lock()
	d.state.Waiting = d.waiting
	b, err := json.Marshal(d.state)
	d.counting.Unlock()
	if err == nil {
		err = background.WriteCursor(filepath.Join(d.root, CursorFile), b)
	}
	if err != nil {
		d.config.Logger.Warn("a cursor cannot be written: after a restart the pass over the device begins anew", "device", d.name, "error", err)
	}
	d.tell()
}

// figures are those for recon, of all devices of the host together.
type figures struct {
	Start   float64 `json:"start_time"` // of the pass that began first
	Seconds float64 `json:"pass_time"`  // of the longest pass
	Running int     `json:"running"`    // devices whose pass goes on
	Report
}

// tell writes the figures of the passes that go on, or were the last ones.
func (d *device) tell() {
	p := d.state.Pass
	d.mu.Lock()
	d.shown[d.name] = &p
	total := figures{}
	for _, p := range d.shown {
		if began := float64(p.Began.UnixMicro()) / 1e6; total.Start == 0 || began < total.Start {
			total.Start = began
		}
		end := p.Ended
		if end.IsZero() {
			end = time.Now()
			total.Running++
		}
		total.Seconds = max(total.Seconds, end.Sub(p.Began).Seconds())
		total.Report.add(&p.Report)
	}
	d.mu.Unlock()
	if d.config.ReconCachePath == "" {
		return
	}
	if err := reconcache.Update(d.config.ReconCachePath, "object", map[string]any{"object_lifecycle": total}); err != nil {
		d.config.Logger.Warn("figures for recon cannot be written", "recon_cache_path", d.config.ReconCachePath, "error", err)
	}
}
