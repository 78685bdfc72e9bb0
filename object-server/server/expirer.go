package server

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"martlet/object-server/bundle/format"
	"martlet/object-server/server/message"
	"martlet/object-server/server/option"
	"martlet/object-server/updates"
)

// The expirer's queue: objects with X-Delete-At are listed in containers of this account, a hundred for each day.
const (
	expirerAccount     = ".expiring_objects"
	expirerDivisor     = 86400 // seconds
	expirerPerDivisor  = 100
	expirerContentType = "text/plain"
	expirerRowETag     = "d41d8cd98f00b204e9800998ecf8427e" // of an empty body
)

// expirerUpdates queues m for deletion at its time, and removes its earlier time from the queue.
func (s *Server) expirerUpdates(x *exchange, m *format.Metadata, timestamp format.Timestamp, before int64,
) []updates.Update {
	if x.flag(message.Replication) || (m.DeleteAt == 0 && before == 0) {
		return nil
	}
	var all []updates.Update
	if m.DeleteAt != 0 {
		all = s.enqueueExpiry(x, m, timestamp)
	}
	if clean := x.header(message.CleanExpiringQueue); before != 0 && before != m.DeleteAt && (clean == "" || option.IsTrue(clean)) {
		// The proxy names no server for this update; it is saved and goes to all primaries.
		all = append(all, updates.Update{
			Target: updates.Target{Account: expirerAccount, Container: expirerContainer(x.at.Hash, before)},
			Row:    updates.DeletedRow(task(x.name(), before), timestamp.String(), 0),
		})
	}
	return all
}

func (s *Server) enqueueExpiry(x *exchange, m *format.Metadata, timestamp format.Timestamp) []updates.Update {
	if !x.in.Has(message.DeleteAtHost) {
		return nil // the servers of the other replicas update enough queues
	}
	update := queued(m, x.at.Hash, timestamp)
	if container := x.header(message.DeleteAtContainer); container != "" {
		update.Target.Container = container
	}
	partition := x.header(message.DeleteAtPartition)
	hosts, devices := splitList(x.header(message.DeleteAtHost)), splitList(x.header(message.DeleteAtDevice))
	var all []updates.Update
	for i := range min(len(hosts), len(devices)) {
		if partition != "" && hosts[i] != "" && devices[i] != "" {
			update.Target.Host, update.Target.Device, update.Target.Partition = hosts[i], devices[i], partition
			all = append(all, update)
		}
	}
	if len(all) == 0 {
		all = append(all, update)
	}
	return all
}

// queued enters m into the queue, of all its primaries.
func queued(m *format.Metadata, hash format.Hash, timestamp format.Timestamp) updates.Update {
	typeTimestamp := m.Timestamp.String()
	return updates.Update{
		Target: updates.Target{Account: expirerAccount, Container: expirerContainer(hash, m.DeleteAt)},
		Row: updates.Row{
			Name: task(m.Name, m.DeleteAt), CreatedAt: timestamp.String(), ETag: expirerRowETag,
			ContentType:          fmt.Sprintf("%s;swift_expirer_bytes=%d", expirerContentType, m.Size),
			ContentTypeTimestamp: &typeTimestamp,
		},
	}
}

// task is the name of an object's entry in the queue. name is "/account/container/object".
func task(name string, at int64) string { return fmt.Sprintf("%010d-%s", at, name[1:]) }

// expirerContainer is the queue container for a time: the day, moved back by up to a hundred seconds so that one day
// spreads over as many containers.
func expirerContainer(hash format.Hash, at int64) string {
	high, low := binary.BigEndian.Uint64(hash[:8]), binary.BigEndian.Uint64(hash[8:])
	_, shard := bits.Div64(high%expirerPerDivisor, low, expirerPerDivisor)
	return fmt.Sprintf("%010d", max(at/expirerDivisor*expirerDivisor-int64(shard), 0))
}
