package conf

import (
	"time"

	"martlet/object-server/background"
	"martlet/object-server/server/option"
)

// Replicator is section [object-replicator]: how the replicator of this host works.
type Replicator struct {
	Interval       time.Duration // from the start of a pass to that of the next
	Concurrency    int           // partitions of a device at once
	BytesPerSecond int64         // 0: no limit
	NodeTimeout    time.Duration // for one request to a server
	ReconCachePath string        // directory for the figures of passes
	Priority       background.Priority
}

func (r *Replicator) options() []option.Option {
	return append([]option.Option{
		option.New(replicatorSection, "interval", "30", option.Seconds(&r.Interval)),
		option.New(replicatorSection, "concurrency", "4", option.Integer(&r.Concurrency, 1, 256)),
		option.New(replicatorSection, "bytes_per_second", "0", option.Integer(&r.BytesPerSecond, 0, 1<<40)),
		option.New(replicatorSection, "node_timeout", "60", option.Seconds(&r.NodeTimeout)),
		option.New(replicatorSection, "recon_cache_path", "", func(value string) error { r.ReconCachePath = value; return nil }),
	}, priorityOptions(replicatorSection, &r.Priority)...)
}

// priorityOptions are those of Swift for the priority of a process.
func priorityOptions(section string, p *background.Priority) []option.Option {
	return []option.Option{
		option.New(section, "nice_priority", "19", option.Integer(&p.Nice, -20, 19)),
		option.New(section, "ionice_class", string(background.Idle), func(value string) error { return p.SetClass(value) }),
		option.New(section, "ionice_priority", "7", option.Integer(&p.Level, 0, 7)),
	}
}
