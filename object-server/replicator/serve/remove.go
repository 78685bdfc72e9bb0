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
	RemoveMoved(at device.Location, id format.VersionID, t format.Timestamp, name string) (device.State, error)
}

// remove removes versions of a name, those that are not here as well: a peer may still send them. No container is told, because
// the versions are in another policy. What was written later than its removal stays.
func (r *Replicas) remove(ctx context.Context, q *wire.RemoveRequest) (*wire.Removed, error) {
	if q.Partition.Policy < 0 || len(q.Hash) != wire.HashSize || len(q.Versions)%wire.RemovalSize != 0 || q.Name == "" {
		return nil, &grid.Error{Code: grid.CodeBadPayload, Reason: "no policy, no hash, no name, or no list of versions"}
	}
	at := device.Location{Policy: q.Partition.Policy, Partition: q.Partition.Number, Hash: format.Hash(q.Hash)}
	a := &wire.Removed{}
	return a, r.use(q.Partition.Device, func(s store) error {
		for rest := q.Versions; len(rest) > 0; rest = rest[wire.RemovalSize:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			t := format.Timestamp{Ticks: binary.LittleEndian.Uint64(rest[16:]), Offset: binary.LittleEndian.Uint64(rest[24:])}
			_, err := s.RemoveMoved(at, format.VersionID(rest[:16]), t, q.Name)
			var older *device.OlderError
			switch {
			case errors.Is(err, device.ErrLocked):
				a.Locked++
			case errors.As(err, &older):
			case err != nil:
				return err
			}
		}
		return nil
	})
}
