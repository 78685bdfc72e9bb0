package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"martlet/object-server/server/recon"
)

// collector reads the figures of the host and of its devices for each scrape.
type collector struct{ source Source }

// Describe implements prometheus.Collector: which values there are depends on the devices.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, one := range all {
		if one.name != requestsTotal.name && one.name != requestDuration.name {
			out <- descriptions[one.name]
		}
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	out <- buildInfo.of(1, "object", c.source.Version)
	for _, ring := range c.source.Reporter.Rings() {
		out <- ringInfo.of(1, ring.Name, ring.MD5)
		out <- ringModified.of(float64(ring.Modified.UnixMilli())/1000, ring.Name)
	}
	c.collectOwn(out)
	for _, one := range c.source.Reporter.Spaces() {
		collectSpace(one, out)
	}
	for kind, byPolicy := range c.source.Reporter.Quarantine() {
		for policy, count := range byPolicy {
			out <- quarantined.of(float64(count), kind, policy)
		}
	}
	for _, pass := range c.source.Reporter.Passes() {
		collectPass(pass, out)
	}
	for _, one := range c.source.Reporter.Bundles() {
		collectBundles(one, out)
	}
}

func (c *collector) collectOwn(out chan<- prometheus.Metric) {
	own := c.source.Own()
	out <- gridOpen.of(float64(own.GridConnections))
	out <- gridRefused.of(float64(own.GridRefused))
	out <- gridErrors.of(float64(own.GridProtocolErrors))
	for device, byMethod := range own.Refused {
		for method, count := range byMethod {
			out <- refused.of(float64(count), device, method)
		}
	}
	for device, count := range own.Damages {
		out <- damages.of(float64(count), device)
	}
}

func collectSpace(one recon.Space, out chan<- prometheus.Metric) {
	out <- usable.of(yes(one.IsUsable), one.Device)
	for event, count := range one.XFSInodeCache {
		out <- xfsInodeCache.of(float64(count), one.Device, event)
	}
	if one.Size == 0 {
		return
	}
	out <- size.of(float64(one.Size), one.Device)
	out <- free.of(float64(one.Free), one.Device)
	out <- inodes.of(float64(one.Inodes), one.Device)
	out <- inodesFree.of(float64(one.InodesFree), one.Device)
}

func collectPass(pass recon.Pass, out chan<- prometheus.Metric) {
	if pass.Ended > 0 {
		out <- passLast.of(pass.Ended, pass.Job)
	}
	if pass.Seconds > 0 {
		out <- passDuration.of(pass.Seconds, pass.Job)
	}
	for result, count := range pass.Items {
		out <- passItems.of(count, pass.Job, result)
	}
}

func collectBundles(one recon.Bundles, out chan<- prometheus.Metric) {
	s := &one.Stats
	for operation, count := range map[string]uint64{"put": s.Puts, "delete": s.Deletes, "post": s.Posts, "read": s.Reads} {
		out <- writes.of(float64(count), one.Device, operation)
	}
	for _, value := range []struct {
		of metric
		is uint64
	}{
		{batches, s.Batches}, {flushes, s.Flushes}, {written, s.BytesWritten}, {received, s.BytesReceived}, {live, s.LiveBytes},
		{garbage, s.RecordBytes - min(s.RecordBytes, s.LiveBytes)}, {index, s.IndexBytes}, {reserve, s.ReserveBytes},
		{refusals, s.Refusals}, {damagesMet, s.Quarantined}, {compacted, s.BytesCompacted},
		{segmentsFreed, s.SegmentsRemoved}, {versionsMemory, s.VersionBytes},
	} {
		out <- value.of.of(float64(value.is), one.Device)
	}
	out <- full.of(yes(s.Full), one.Device)
	out <- updatesWait.of(float64(one.Pending), one.Device)
	out <- updatesHeld.of(float64(one.Unsaved), one.Device)
	out <- updatesAge.of(one.OldestAge, one.Device)
	out <- updatesBad.of(float64(one.Damaged), one.Device)
}

func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
