package serve

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/bundle/sethash"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
	"martlet/object-server/server/devices"
)

// Replicas answers replicators. Safe for concurrent use.
type Replicas struct {
	Devices *devices.Set // set before the first request

	stopped context.Context
	stop    context.CancelFunc

	mu        sync.Mutex
	importing map[place]bool               // partitions that get records; guarded by mu
	dropping  map[place]bool               // guarded by mu
	held      map[place]map[string]promise // to keep partitions, by the device that has removed its replica; guarded by mu
	promised  uint64                       // number of the last promise; guarded by mu
	swept     time.Time                    // when promises that are over were last looked for; guarded by mu

	hints hints
}

// place is a partition of a device.
type place struct {
	device    string
	policy    int
	partition uint32
}

func placeOf(p *wire.Partition) place { return place{p.Device, p.Policy, p.Number} }

// New returns Replicas without devices.
func New() *Replicas {
	stopped, stop := context.WithCancel(context.Background())
	return &Replicas{
		stopped: stopped, stop: stop, importing: map[place]bool{}, dropping: map[place]bool{}, held: map[place]map[string]promise{},
		promised: uint64(time.Now().UnixNano()), // a replicator may have the number of a promise from before a restart
	}
}

// Stop ends all streams, because the server stops.
func (r *Replicas) Stop() { r.stop() }

// AddTo adds the handlers.
func (r *Replicas) AddTo(mux *grid.Mux) {
	grid.Handle(mux, wire.NamePartitions, r.partitions)
	grid.Handle(mux, wire.NameDigests, r.digests)
	grid.Handle(mux, wire.NameSlices, r.slices)
	grid.Handle(mux, wire.NameElements, r.elements)
	grid.Handle(mux, wire.NameSynced, r.synced)
	grid.Handle(mux, wire.NameDrop, r.drop)
	grid.Handle(mux, wire.NameDamages, r.damages)
	grid.Handle(mux, wire.NameHeal, r.heal)
	grid.Handle(mux, wire.NameHint, r.hint)
	grid.Handle(mux, wire.NameHints, r.takeHints)
	grid.Handle(mux, wire.NameHold, r.hold)
	grid.Handle(mux, wire.NamePromises, r.promises)
	grid.Handle(mux, wire.NameMend, r.mend)
	grid.Handle(mux, wire.NameRemove, r.remove)
	grid.Handle(mux, wire.NameAuditState, r.auditState)
	grid.Handle(mux, wire.NameAuditExamine, r.auditExamine)
	mux.HandleStream(wire.NameExport, r.export)
	mux.HandleStream(wire.NameLocate, r.locate)
	mux.HandleStream(wire.NameImport, r.importRecords)
}

// store is the part of device.Device that replicators use.
type store interface {
	Replica(policy int, partition uint32) device.Replica
	Partitions(policy int) ([]uint32, error)
	Damages() (all []device.Damage, more int)
	audited
	removing
	IsOfPower(policy int, power uint8) error
}

// useOf calls do with a device whose partitions are of a part power; 0: of any.
func (r *Replicas) useOf(power uint8, name string, policy int, do func(s store) error) error {
	return r.use(name, func(s store) error {
		if power > 0 {
			if err := s.IsOfPower(policy, power); err != nil {
				return err
			}
		}
		return do(s)
	})
}

// use calls do with a device.
func (r *Replicas) use(name string, do func(s store) error) error {
	if !devices.IsName(name) {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: "invalid device name"}
	}
	found, err := r.Devices.Acquire(name)
	if err != nil {
		return err
	}
	defer found.Release()
	s, ok := found.Store.(store)
	if !ok {
		return errors.ErrUnsupported
	}
	return do(s)
}

// replica calls do with a partition.
func (r *Replicas) replica(p *wire.Partition, do func(device.Replica) error) error {
	if p.Policy < 0 {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: "a storage policy below 0"}
	}
	return r.use(p.Device, func(s store) error { return do(s.Replica(p.Policy, p.Number)) })
}

func badPayload(err error) error {
	if errors.Is(err, wire.ErrMalformed) {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: err.Error()}
	}
	return err
}

func (r *Replicas) partitions(_ context.Context, q *wire.PartitionsRequest) (*wire.Partitions, error) {
	a := &wire.Partitions{}
	err := r.useOf(q.Power, q.Device, q.Policy, func(s store) (err error) {
		a.Numbers, err = s.Partitions(q.Policy)
		slices.Sort(a.Numbers)
		return err
	})
	return a, err
}

func (r *Replicas) digests(ctx context.Context, q *wire.DigestsRequest) (*wire.Digests, error) {
	asked, err := wire.ParseAsked(q.Asked)
	if err != nil {
		return nil, badPayload(err)
	}
	a := &wire.Digests{}
	err = r.useOf(q.Power, q.Device, q.Policy, func(s store) error {
		for _, one := range asked {
			if err := ctx.Err(); err != nil {
				return err
			}
			state, err := stateOf(s.Replica(q.Policy, one.Partition), one.Horizon)
			if err != nil {
				return err
			}
			a.States = wire.AppendState(a.States, &state)
		}
		return nil
	})
	return a, err
}

// stateOf tells the state of a partition, with its digest from a horizon on. What cannot be known of one partition is no
// error: the others are told. What concerns the whole device is.
func stateOf(replica device.Replica, horizon uint64) (state wire.State, err error) {
	own, err := replica.Horizon()
	if err == nil {
		state.Horizon = own.Ticks
		if horizon > 0 {
			horizon = max(horizon, own.Ticks)
		}
		state.Digest, state.Position, err = replica.Digest(0, 0, format.Timestamp{Ticks: horizon})
		state.IsKnown = err == nil
	}
	if err == nil {
		var doubt bundle.Position
		doubt, err = replica.Doubt()
		state.Doubt = doubt.LSN
	}
	switch {
	case err == nil:
		return state, nil
	case errors.Is(err, device.ErrOut), errors.Is(err, device.ErrClosed), errors.Is(err, device.ErrBusy), errors.Is(err, device.ErrStuck):
		return wire.State{}, err
	}
	return wire.State{}, nil
}

func (r *Replicas) slices(_ context.Context, q *wire.SlicesRequest) (*wire.Slices, error) {
	a := &wire.Slices{}
	err := r.replica(&q.Partition, func(replica device.Replica) error {
		found, _, err := replica.Slices(q.Above, q.Prefix, q.Level, format.Timestamp{Ticks: q.Horizon})
		a.Slices = sethash.AppendSlices(nil, found)
		return err
	})
	return a, err
}

func (r *Replicas) elements(_ context.Context, q *wire.ElementsRequest) (*wire.Elements, error) {
	a := &wire.Elements{}
	err := r.replica(&q.Partition, func(replica device.Replica) error {
		found, _, err := replica.Elements(q.Level, q.Prefix)
		a.Elements = wire.AppendElements(nil, found)
		if err == nil {
			a.IsPartial, err = replica.IsPartial()
		}
		return err
	})
	return a, err
}

// synced notes what peers have. A partition that has changed, or is damaged, is left out: nothing depends on it.
func (r *Replicas) synced(_ context.Context, q *wire.SyncedRequest) (*wire.Done, error) {
	return &wire.Done{}, r.use(q.Device, func(s store) error {
		for i := range q.Synced {
			one := &q.Synced[i]
			replica := s.Replica(q.Policy, one.Partition)
			set := func() error { return replica.SetPeers(one.Peers) }
			if one.IsPartial {
				set = replica.UnsetPeers
			}
			err := set()
			for _, has := range one.Has {
				if err == nil {
					err = replica.SetSyncedThrough(has.Peer, has.Position.Engine())
				}
			}
			if err != nil && !errors.Is(err, device.ErrChanged) && !errors.Is(err, device.ErrQuarantined) {
				return err
			}
		}
		return nil
	})
}

func (r *Replicas) heal(_ context.Context, q *wire.HealRequest) (*wire.Done, error) {
	alone, err := wire.ParseHashes(q.Alone)
	if err != nil {
		return nil, badPayload(err)
	}
	doubted, err := wire.ParseHashes(q.Doubted)
	if err != nil {
		return nil, badPayload(err)
	}
	with := device.Compared{
		Peers: compared(q.Peers), Alone: slices.Collect(maps.Keys(alone)), Doubted: slices.Collect(maps.Keys(doubted)),
	}
	return &wire.Done{}, r.replica(&q.Partition, func(replica device.Replica) error {
		return replica.Heal(q.Doubt.Engine(), with)
	})
}

// damagedNamesMax bounds the names of an answer to half of a payload. The next pass asks for others.
const damagedNamesMax = 32 << 10

// damages lists the damaged partitions of a policy. Damage of one name has its hash; other damage shows as a doubt.
func (r *Replicas) damages(_ context.Context, q *wire.PartitionsRequest) (*wire.Damages, error) {
	a := &wire.Damages{}
	err := r.use(q.Device, func(s store) error {
		all, _ := s.Damages()
		rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] }) // no damage that stays hides others for ever
		names := 0
		byPartition := map[uint32]*wire.Damaged{}
		for i := range all {
			x := &all[i]
			if x.Policy != q.Policy {
				continue
			}
			d := byPartition[x.Partition]
			if d == nil {
				d = &wire.Damaged{Partition: x.Partition}
				byPartition[x.Partition] = d
			}
			for _, lost := range x.Lost {
				if lost.Hash != (format.Hash{}) && names < damagedNamesMax {
					names++
					d.Hashes = wire.AppendHash(d.Hashes, lost.Hash)
				}
			}
		}
		for partition, d := range byPartition {
			doubt, err := s.Replica(q.Policy, partition).Doubt()
			if err != nil && !errors.Is(err, device.ErrInvalid) {
				return err
			}
			if err == nil && doubt != (bundle.Position{}) {
				d.Doubt = wire.PositionOf(doubt)
			}
			a.Partitions = append(a.Partitions, *d)
		}
		return nil
	})
	slices.SortFunc(a.Partitions, func(x, y wire.Damaged) int { return int(int64(x.Partition) - int64(y.Partition)) })
	return a, err
}
