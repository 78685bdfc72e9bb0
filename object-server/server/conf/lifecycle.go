package conf

import (
	"time"

	"martlet/object-server/background"
	"martlet/object-server/server/option"
)

// Lifecycle is section [object-lifecycle]: how the lifecycle rules of buckets are carried out on this host. Rates are of each
// device; 0: no limit.
type Lifecycle struct {
	Interval         time.Duration // from the start of a pass to the start of the next one
	DaySeconds       int64         // of a day as rules count them
	Concurrency      int           // names of a device at once
	BytesPerSecond   int64         // that are read
	ObjectsPerSecond int64         // that are deleted
	NodeTimeout      time.Duration // for one request to a server
	ReconCachePath   string        // directory for the figures of passes
	Priority         background.Priority
}

func (l *Lifecycle) options() []option.Option {
	return append([]option.Option{
		option.New(lifecycleSection, "interval", "86400", option.Seconds(&l.Interval)),
		option.New(lifecycleSection, "day_seconds", "86400", option.Integer(&l.DaySeconds, 1, 86400)),
		option.New(lifecycleSection, "concurrency", "8", option.Integer(&l.Concurrency, 1, 1024)),
		option.New(lifecycleSection, "bytes_per_second", "10000000", option.Integer(&l.BytesPerSecond, 0, 1<<40)),
		option.New(lifecycleSection, "objects_per_second", "0", option.Integer(&l.ObjectsPerSecond, 0, 1<<40)),
		option.New(lifecycleSection, "node_timeout", "60", option.Seconds(&l.NodeTimeout)),
		option.New(lifecycleSection, "recon_cache_path", "", func(value string) error { l.ReconCachePath = value; return nil }),
	}, priorityOptions(lifecycleSection, &l.Priority)...)
}
