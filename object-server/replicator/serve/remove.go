package serve

import (
	"context"
	"encoding/binary"
	"errors"

	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// removing is the part of a store that remove uses.
type removing interface {
	RemoveMoved(at device.Location, id format.VersionID, t format.Timestamp, name string, posted *device.Posted) (device.State, error)
}

// remove removes versions of a name, those that are not here as well: a peer may still send them. No container is told, because
// the versions are in another policy. What was written later than its removal stays.
func (r *Replicas) remove(ctx context.Context, q *wire.RemoveRequest) (*wire.Removed, error) {
	if q.Partition.Policy < 0 || len(q.Hash) != wire.HashSize || len(q.Versions)%wire.RemovalSize != 0 || q.Name == "" {
		return nil, &grid.Error{Code: grid.CodeBadPayload, Reason: "no policy, no hash, no name, or no list of versions"}
	}
	if len(q.Posted) > 0 && len(q.Posted)/wire.PostedSize != len(q.Versions)/wire.RemovalSize || len(q.Posted)%wire.PostedSize != 0 {
		return nil, &grid.Error{Code: grid.CodeBadPayload, Reason: "not the times of as many versions"}
	}
	at := device.Location{Policy: q.Partition.Policy, Partition: q.Partition.Number, Hash: format.Hash(q.Hash)}
	a := &wire.Removed{}
	return a, r.use(q.Partition.Device, func(s store) error {
		posted := q.Posted
		for rest := q.Versions; len(rest) > 0; rest = rest[wire.RemovalSize:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			var times *device.Posted
			if len(posted) > 0 {
				times = &device.Posted{Metadata: timeAt(posted), Type: timeAt(posted[16:])}
				posted = posted[wire.PostedSize:]
			}
			_, err := s.RemoveMoved(at, format.VersionID(rest[:16]), timeAt(rest[16:]), q.Name, times)
			var older *device.OlderError
			switch {
			case errors.Is(err, device.ErrLocked):
				a.Locked++
			case errors.Is(err, device.ErrPosted):
				a.Posted++
			case errors.As(err, &older):
			case err != nil:
				return err
			}
		}
		return nil
	})
}

// timeAt reads ticks and offset.
func timeAt(b []byte) format.Timestamp {
	return format.Timestamp{Ticks: binary.LittleEndian.Uint64(b), Offset: binary.LittleEndian.Uint64(b[8:])}
}
