package conf

import (
	"time"

	"martlet/object-server/background"
	"martlet/object-server/server/option"
)

// Auditor is section [object-auditor]: how the auditor of this host works. Rates are of each device; 0: no limit.
type Auditor struct {
	Interval               time.Duration // from the end of a full pass to the start of the next one
	FastInterval           time.Duration // the same for fast passes
	Concurrency            int           // devices at once; 0: all
	BytesPerSecond         int64
	FilesPerSecond         int64         // objects of full passes
	ZeroByteFilesPerSecond int64         // objects of fast passes
	NodeTimeout            time.Duration // for one request to the server
	ReconCachePath         string        // directory for the figures of passes
	Priority               background.Priority
}

func (a *Auditor) options() []option.Option {
	return append([]option.Option{
		option.New(auditorSection, "interval", "30", option.Seconds(&a.Interval)),
		option.New(auditorSection, "fast_interval", "3600", option.Seconds(&a.FastInterval)),
		option.New(auditorSection, "concurrency", "0", option.Integer(&a.Concurrency, 0, 1024)),
		option.New(auditorSection, "bytes_per_second", "10000000", option.Integer(&a.BytesPerSecond, 0, 1<<40)),
		option.New(auditorSection, "files_per_second", "0", option.Integer(&a.FilesPerSecond, 0, 1<<40)),
		option.New(auditorSection, "zero_byte_files_per_second", "0", option.Integer(&a.ZeroByteFilesPerSecond, 0, 1<<40)),
		option.New(auditorSection, "node_timeout", "60", option.Seconds(&a.NodeTimeout)),
		option.New(auditorSection, "recon_cache_path", "", func(value string) error { a.ReconCachePath = value; return nil }),
	}, priorityOptions(auditorSection, &a.Priority)...)
}
