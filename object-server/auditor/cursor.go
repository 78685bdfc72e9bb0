package auditor

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"martlet/object-server/background"
	"martlet/object-server/reconcache"
)

// CursorFile is where an auditor keeps on a device how far it is, as JSON. It is replaced as a whole and never flushed: after a
// power cut a pass may begin anew, or a part of it be made twice.
const CursorFile = "auditor"

// cursorFormat is that of the file. One of another format is as none.
const cursorFormat = 1

// cursors are the content of the file.
type cursors struct {
	Format int             `json:"format"`
	Passes [kinds]progress `json:"passes"`
}

// progress is a pass over a device.
type progress struct {
	Kind   Kind      `json:"kind"`
	Began  time.Time `json:"began"`
	Ended  time.Time `json:"ended,omitzero"` // zero: it goes on
	After  *unit     `json:"after"`          // the last one that was audited; nil: none yet
	Report Report    `json:"report"`         // what was done so far
}

// readCursors reads the file. Without one that can be read all passes begin.
func (d *device) readCursors() *cursors {
	c := &cursors{}
	found, err := background.ReadCursor(filepath.Join(d.root, CursorFile), c)
	if err == nil && found && c.Format != cursorFormat {
		err = errors.New("another format")
	}
	if err != nil {
		d.config.Logger.Warn("a cursor cannot be read, the audit of the device begins anew", "device", d.name, "error", err)
	}
	if err != nil || !found {
		return &cursors{Format: cursorFormat}
	}
	return c
}

// noteEvery is how often cursors are written while a pass goes on.
var noteEvery = time.Second

// note writes the cursors, unless that was done a moment ago.
func (d *device) note(isUrgent bool) {
	if d.state == nil || !isUrgent && time.Since(d.noted) < noteEvery { // one without a state begins at the start each time
		return
	}
	d.noted = time.Now()
	b, err := json.Marshal(d.state)
	if err == nil {
		err = background.WriteCursor(filepath.Join(d.root, CursorFile), b)
	}
	if err != nil {
		d.config.Logger.Warn("a cursor cannot be written: after a restart the audit of the device begins anew", "device", d.name, "error", err)
	}
}

// swiftFigures are those that swift-recon reads.
type swiftFigures struct {
	Start       float64 `json:"start_time"`
	Passes      int     `json:"passes"` // objects that are whole
	Errors      int     `json:"errors"`
	Quarantined int     `json:"quarantined"`
	Bytes       int64   `json:"bytes_processed"`
	Seconds     float64 `json:"audit_time"`
}

// swiftKeys are the keys of the figures of the kinds of passes.
var swiftKeys = [kinds]string{"object_auditor_stats_ALL", "object_auditor_stats_ZBF"}

// tell writes the figures of the passes that go on, or were the last ones, for recon. All devices of the host are added.
func (d *device) tell() {
	d.mu.Lock()
	d.shown[d.name] = d.state.Passes
	d.mu.Unlock()
	if d.config.ReconCachePath == "" {
		return
	}
	figures := map[string]any{}
	for kind, key := range swiftKeys {
		figures[key] = d.figures(kind)
	}
	if err := reconcache.Update(d.config.ReconCachePath, "object", figures); err != nil {
		d.config.Logger.Warn("figures for recon cannot be written", "recon_cache_path", d.config.ReconCachePath, "error", err)
	}
}

// figures adds those of all devices.
func (a *Auditor) figures(kind int) (total swiftFigures) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, all := range a.shown {
		p := &all[kind]
		if p.Began.IsZero() {
			continue
		}
		if began := float64(p.Began.UnixMicro()) / 1e6; total.Start == 0 || began < total.Start {
			total.Start = began
		}
		end := p.Ended
		if end.IsZero() {
			end = time.Now()
		}
		total.Seconds += end.Sub(p.Began).Seconds()
		total.Bytes += p.Report.Bytes
		total.Errors += p.Report.Failures
		total.Quarantined += p.Report.Damages
		total.Passes += max(p.Report.Objects-p.Report.Damages, 0)
	}
	return total
}
