package metrics

import (
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is one name with its labels and the sentence that Prometheus shows.
type metric struct {
	name   string
	kind   prometheus.ValueType
	labels []string
	help   string
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
	other   = prometheus.UntypedValue // a histogram
)

var onDevice = []string{"device"}

// The metrics that Prometheus' library fills.
var (
	requestsTotal   = metric{"martlet_requests_total", counter, []string{"method", "policy", "status"}, "Requests that have ended."}
	requestDuration = metric{"martlet_request_duration_seconds", other, []string{"method", "policy"}, "Time from the head of a request to the end of its answer."}
)

// The metrics that are read when they are asked for.
var (
	buildInfo     = metric{"martlet_build_info", gauge, []string{"service", "version"}, "1, with the version that runs."}
	ringInfo      = metric{"martlet_ring_info", gauge, []string{"ring", "md5"}, "1, with the MD5 of the ring file."}
	ringModified  = metric{"martlet_ring_modified_timestamp_seconds", gauge, []string{"ring"}, "Time of the ring file."}
	usable        = metric{"martlet_device_usable", gauge, onDevice, "1 if the device serves, else 0."}
	size          = metric{"martlet_device_size_bytes", gauge, onDevice, "Size of the file system."}
	free          = metric{"martlet_device_free_bytes", gauge, onDevice, "Free space of the file system."}
	inodes        = metric{"martlet_device_inodes", gauge, onDevice, "Inodes of the file system."}
	inodesFree    = metric{"martlet_device_inodes_free", gauge, onDevice, "Free inodes of the file system."}
	xfsInodeCache = metric{"martlet_xfs_inode_cache_total", counter, []string{"device", "event"}, "Look-ups in the inode cache of XFS; the event missed reads the disk."}
	quarantined   = metric{"martlet_quarantined", gauge, []string{"kind", "policy"}, "Databases, or objects of a policy, in quarantine on this host."}
	passLast      = metric{"martlet_pass_last_timestamp_seconds", gauge, []string{"task"}, "End of the last pass of a background job of this host."}
	passDuration  = metric{"martlet_pass_duration_seconds", gauge, []string{"task"}, "Duration of that pass."}
	passItems     = metric{"martlet_pass_items", gauge, []string{"task", "result"}, "What that pass attempted, found in sync, failed at, or left as hand-offs."}
	updatesWait   = metric{"martlet_async_pending", gauge, onDevice, "Container updates that wait for delivery."}
	updatesHeld   = metric{"martlet_async_pending_unsaved", gauge, onDevice, "Of them, those in memory alone, because the device cannot save them."}
	updatesAge    = metric{"martlet_async_pending_oldest_age_seconds", gauge, onDevice, "Age of the oldest update that waits."}
	updatesBad    = metric{"martlet_async_pending_damaged", gauge, onDevice, "Files of container updates with damage, kept for inspection."}
	damages       = metric{"martlet_damages", gauge, onDevice, "Known damages of the device."}
	refused       = metric{"martlet_ratelimit_refused_total", counter, []string{"device", "method"}, "Requests refused by backend_ratelimit."}
	gridOpen      = metric{"martlet_grid_connections", gauge, nil, "Open connections of the grid."}
	gridRefused   = metric{"martlet_grid_refused", gauge, nil, "Requests and connections without a proof of the secret, since the start."}
	gridErrors    = metric{"martlet_grid_protocol_errors", gauge, nil, "Connections of the grid that broke a rule of its format, since the start."}

	writes         = metric{"martlet_bundle_operations_total", counter, []string{"device", "operation"}, "Acknowledged put, delete and post, and reads."}
	batches        = metric{"martlet_bundle_batches_total", counter, onDevice, "Groups of writes that were flushed together."}
	flushes        = metric{"martlet_bundle_flushes_total", counter, onDevice, "Calls of fdatasync, fsync and syncfs."}
	written        = metric{"martlet_bundle_written_bytes_total", counter, onDevice, "Bytes written to segments and large files."}
	received       = metric{"martlet_bundle_received_bytes_total", counter, onDevice, "Bytes of bodies in PUTs that were answered."}
	live           = metric{"martlet_bundle_live_bytes", gauge, onDevice, "Bytes in open bundles that count."}
	garbage        = metric{"martlet_bundle_garbage_bytes", gauge, onDevice, "Bytes in open bundles that compaction can free."}
	index          = metric{"martlet_bundle_index_bytes", gauge, onDevice, "Memory of the indexes."}
	reserve        = metric{"martlet_bundle_reserve_bytes", gauge, onDevice, "Free space that PUTs leave."}
	full           = metric{"martlet_bundle_full", gauge, onDevice, "1 if PUTs are refused for want of space."}
	refusals       = metric{"martlet_bundle_refusals_total", counter, onDevice, "Writes refused for want of space."}
	damagesMet     = metric{"martlet_bundle_damages_met_total", counter, onDevice, "Damaged records and extents met."}
	compacted      = metric{"martlet_bundle_compacted_bytes_total", counter, onDevice, "Bytes that compaction has copied."}
	segmentsFreed  = metric{"martlet_bundle_segments_removed_total", counter, onDevice, "Segments that compaction has replaced."}
	versionsMemory = metric{"martlet_bundle_version_cache_bytes", gauge, onDevice, "Memory of what look-ups have read of versions."}
)

// all is the catalogue, in the order of doc/metrics.md.
var all = []metric{
	requestsTotal, requestDuration,
	buildInfo, ringInfo, ringModified, usable, size, free, inodes, inodesFree, xfsInodeCache, quarantined,
	passLast, passDuration, passItems, updatesWait, updatesHeld, updatesAge, updatesBad, damages, refused, gridOpen, gridRefused, gridErrors,
	writes, batches, flushes, written, received, live, garbage, index, reserve, full, refusals, damagesMet, compacted,
	segmentsFreed, versionsMemory,
}

var descriptions = func() map[string]*prometheus.Desc {
	made := map[string]*prometheus.Desc{}
	for _, one := range all {
		made[one.name] = prometheus.NewDesc(one.name, one.help, one.labels, nil)
	}
	return made
}()

// Print writes one line for each metric: its name and labels.
func Print(w io.Writer) error {
	for _, one := range all {
		if _, err := fmt.Fprintln(w, one.name, one.labels); err != nil {
			return err
		}
	}
	return nil
}

// of makes one value of the metric.
func (m metric) of(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(descriptions[m.name], m.kind, value, labels...)
}
