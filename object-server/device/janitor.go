package device

import "time"

const (
	janitorDelay = time.Minute // after the start, which has enough to do
	janitorRound = time.Hour
)

// janitor removes what opening and mending bundles put into quarantine, once it is old.
type janitor struct {
	device            *Device
	stopping, stopped chan struct{}
}

func (j *janitor) start(d *Device) {
	j.device, j.stopping, j.stopped = d, make(chan struct{}), make(chan struct{})
	go j.run()
}

func (j *janitor) stop() {
	close(j.stopping)
	<-j.stopped
}

func (j *janitor) run() {
	defer close(j.stopped)
	timer := time.NewTimer(janitorDelay)
	defer timer.Stop()
	for {
		select {
		case <-j.stopping:
			return
		case <-timer.C:
			j.tidy(time.Now())
			timer.Reset(janitorRound)
		}
	}
}

// tidy makes one round. What cannot be removed is tried again in the next.
func (j *janitor) tidy(now time.Time) {
	d := j.device
	removed, err := d.files.ExpireAside(now.Add(-d.options.QuarantineAge))
	log := d.options.Logger.With("device", d.root)
	if err != nil {
		log.Warn("old files in quarantine cannot be removed", "error", err)
	}
	if removed > 0 {
		log.Info("old files are removed from quarantine", "files", removed)
	}
}
