package serve

import (
	"context"
	"errors"

	"martlet/object-server/background"
	"martlet/object-server/bundle"
	"martlet/object-server/device"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/vfs"
)

// audited is the part of device.Device that auditors use.
type audited interface {
	Examine(policy int, partition uint32, wrap func(vfs.FS) vfs.FS) ([]bundle.Damage, error)
	AuditState(policy int, partition uint32) (device.AuditState, error)
	Suspects() []device.Suspect
}

// auditState tells an auditor of this host what it needs to know before it reads a partition.
func (r *Replicas) auditState(_ context.Context, q *wire.Partition) (*wire.AuditState, error) {
	a := &wire.AuditState{}
	return a, r.useAudited(q.Device, func(s audited) error {
		found, err := s.AuditState(q.Policy, q.Number)
		*a = wire.AuditState{IsThere: found.IsThere, Power: found.Power, Position: wire.PositionOf(found.Position)}
		return err
	})
}

// auditExamine reads a partition in which an auditor has met damage. What is found is in the list of the device, and a hint
// for the replicator.
func (r *Replicas) auditExamine(ctx context.Context, q *wire.AuditRequest) (*wire.AuditFound, error) {
	a := &wire.AuditFound{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()
	rate := background.NewRate(q.BytesPerSecond)
	pace := func(n int) { _ = rate.Wait(ctx, int64(n)) } // when it fails the result does not count
	err := r.useAudited(q.Partition.Device, func(s audited) error {
		found, err := s.Examine(q.Partition.Policy, q.Partition.Number, func(files vfs.FS) vfs.FS {
			return &vfs.Paced{FS: files, Read: pace}
		})
		for i := range found {
			a.Damages = append(a.Damages, found[i].String())
		}
		return err
	})
	if len(a.Damages) > 0 { // also of those that were known: the peers may be there by now
		r.hints.add(q.Partition.Device, q.Partition.Policy, []uint32{q.Partition.Number})
	}
	return a, err
}

func (r *Replicas) useAudited(name string, do func(s audited) error) error {
	return r.use(name, func(s store) error { return do(s) })
}

// mend rewrites a partition without damaged records that do not count any more, or begins a doubt.
func (r *Replicas) mend(_ context.Context, q *wire.MendRequest) (*wire.Mended, error) {
	a := &wire.Mended{}
	return a, r.replica(&q.Partition, func(replica device.Replica) error {
		err := replica.Mend(q.MayDoubt)
		if a.IsMended = err == nil; errors.Is(err, device.ErrQuarantined) {
			err = nil
		}
		return err
	})
}

// suspects adds hints for the partitions in which reads have met damage since the last call.
func (r *Replicas) suspects() {
	for _, found := range r.Devices.All() {
		s, ok := found.Store.(audited)
		if !ok {
			continue
		}
		for _, x := range s.Suspects() {
			r.hints.add(found.Name, x.Policy, []uint32{x.Partition})
		}
	}
}
