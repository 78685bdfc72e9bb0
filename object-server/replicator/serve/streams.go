package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/device"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

const (
	streamBuffer = 64 << 10
	// A round of imported records shares a flush. It has at most so many records and bytes.
	roundRecords = 1024
	roundBytes   = 4 << 20
)

// want chooses records; nil takes all.
type want func(e *format.Entry) bool

// asked is an ExportRequest.
type asked struct {
	wire.ExportRequest
	replica device.Replica
	since   bundle.Position
	want    want
	doubt   uint64 // records up to this LSN may have been replaced or deleted by lost ones
	held    int    // of these, how many are held back
}

// asked calls do with an ExportRequest, and what is wanted of its partition.
func (r *Replicas) asked(payload []byte, do func(q *asked) error) error {
	q := &asked{}
	if _, err := q.UnmarshalMsg(payload); err != nil {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: err.Error()}
	}
	if len(q.Versions)%len(format.VersionID{}) != 0 {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: "no list of version ids"}
	}
	hashes, err := wire.ParseHashes(q.Hashes)
	if err != nil {
		return badPayload(err)
	}
	return r.replica(&q.Partition, func(replica device.Replica) error {
		doubt, err := replica.Doubt()
		if err != nil {
			return err
		}
		q.replica, q.doubt, q.want = replica, doubt.LSN, wanted(hashes, parseMarks(q.Versions), q.Tombstones)
		if q.doubt > 0 && !q.Doubtful {
			q.want = q.certain(q.want)
		}
		q.since = q.Since.Engine()
		if q.Peer != "" {
			if q.since, err = replica.SyncedThrough(q.Peer); err != nil {
				return err
			}
		}
		return do(q)
	})
}

// certain holds back versions that lost records may have replaced or deleted.
func (q *asked) certain(all want) want {
	return func(e *format.Entry) bool {
		switch {
		case all != nil && !all(e):
			return false
		case e.LSN > q.doubt || e.Type == format.TypeTombstone:
			return true
		}
		q.held++
		return false
	}
}

// wasDeleted tells whether a record is of an object that a lost one has deleted.
func (q *asked) wasDeleted(record []byte) (bool, error) {
	if q.doubt == 0 || len(q.Lacking) == 0 {
		return false, nil
	}
	h, err := format.ParseHeader(record)
	if err != nil || h.LSN > q.doubt || h.Type == format.TypeTombstone {
		return false, err
	}
	return q.replica.WasDeleted(compared(q.Lacking), h.LSN, h.Timestamp)
}

// compared are the peers of a message.
func compared(peers []wire.ComparedPeer) (all []device.ComparedPeer) {
	for _, p := range peers {
		all = append(all, device.ComparedPeer{Name: p.Peer, Horizon: format.Timestamp{Ticks: p.Horizon}})
	}
	return all
}

// export streams the records of a partition that count.
func (r *Replicas) export(ctx context.Context, s *grid.Stream, payload []byte) error {
	defer context.AfterFunc(r.stopped, s.Cancel)()
	return r.asked(payload, func(q *asked) error {
		w := bufio.NewWriterSize(s, streamBuffer)
		read := q.replica.Export
		if q.Heads {
			read = q.replica.ExportHeads
		}
		done, err := read(q.since, q.want, func(record device.RawRecord) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if was, err := q.wasDeleted(record.Bytes); was || err != nil {
				return err
			}
			return wire.WriteRecord(w, record)
		})
		done.Skipped += q.held
		if err == nil {
			err = wire.WriteEnd(w, done)
		}
		return errors.Join(err, w.Flush())
	})
}

// locate streams where these records lie, for a replicator of this host: it reads the files itself.
func (r *Replicas) locate(_ context.Context, s *grid.Stream, payload []byte) error {
	defer context.AfterFunc(r.stopped, s.Cancel)()
	return r.asked(payload, func(q *asked) error {
		all, done, err := q.replica.Locate(q.since, q.want)
		if err != nil {
			return err
		}
		done.Skipped += q.held
		w := bufio.NewWriterSize(s, streamBuffer)
		return errors.Join(wire.WriteLocated(w, all, done), w.Flush())
	})
}

// parseMarks reads wire.ExportRequest.Versions, as entries tell versions apart.
func parseMarks(ids []byte) map[uint64]bool {
	marks := make(map[uint64]bool)
	for rest := ids; len(rest) > 0; rest = rest[len(format.VersionID{}):] {
		h := format.Header{Type: format.TypePut, VersionID: format.VersionID(rest[:len(format.VersionID{})])}
		e := h.Entry(0)
		marks[e.Version()] = true
	}
	return marks
}

// wanted chooses by name, version and kind.
func wanted(hashes map[format.Hash]bool, versions map[uint64]bool, tombstones bool) want {
	if len(hashes) == 0 && len(versions) == 0 && !tombstones {
		return nil
	}
	return func(e *format.Entry) bool {
		return (len(hashes) == 0 || hashes[e.Hash]) && (len(versions) == 0 || versions[e.Version()]) &&
			(!tombstones || e.Type == format.TypeTombstone)
	}
}

// importRecords stores the records of a stream, and tells what became of them. What was stored stays if the stream is cut.
func (r *Replicas) importRecords(_ context.Context, s *grid.Stream, payload []byte) error {
	var q wire.ImportRequest
	if _, err := q.UnmarshalMsg(payload); err != nil {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: err.Error()}
	}
	if len(q.Later)%wire.LaterSize != 0 {
		return &grid.Error{Code: grid.CodeBadPayload, Reason: "no list of versions"}
	}
	defer context.AfterFunc(r.stopped, s.Cancel)()
	done, err := r.importFrom(s, &q)
	if err != nil {
		return err
	}
	answer, err := done.MarshalMsg(nil)
	if err != nil {
		return err
	}
	return s.Send(answer)
}

// importFrom stores the records of a stream. Others are let in when it returns: the sender may begin one as soon as it has the
// answer.
func (r *Replicas) importFrom(s *grid.Stream, q *wire.ImportRequest) (done wire.Imported, err error) {
	to := q.Partition()
	leave, err := r.enterImport(&to)
	if err != nil {
		return done, err
	}
	defer leave()
	err = r.replica(&to, func(replica device.Replica) error {
		in := &round{source: wire.NewReader(s), replica: replica, later: parseLater(q.Later)}
		defer in.source.Free()
		if err := in.read(); err != nil {
			return badPayload(err)
		}
		position, err := replica.Position()
		if err != nil {
			return err
		}
		done = in.done
		done.Bundle = position.Bundle[:]
		return nil
	})
	return done, err
}

// enterImport lets one stream at a time into a partition: two peers would send the same records.
func (r *Replicas) enterImport(p *wire.Partition) (leave func(), err error) {
	key := placeOf(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.importing[key] {
		return nil, &grid.Error{Code: grid.CodeBusy, Reason: "another peer sends records of this partition"}
	}
	r.importing[key] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.importing, key)
	}, nil
}

// round are the records that are imported together.
type round struct {
	source  *wire.Reader
	replica device.Replica
	later   map[writing]uint64 // offsets that versions get
	records []device.RawRecord
	bytes   int
	done    wire.Imported
}

// writing is a version of some ticks.
type writing struct {
	id    format.VersionID
	ticks uint64
}

// parseLater reads wire.ImportRequest.Later.
func parseLater(b []byte) map[writing]uint64 {
	later := make(map[writing]uint64, len(b)/wire.LaterSize)
	for ; len(b) > 0; b = b[wire.LaterSize:] {
		ticks, offset := binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
		later[writing{format.VersionID(b[:16]), ticks}] = offset
	}
	return later
}

// add takes a record into the round.
func (x *round) add(record device.RawRecord) {
	if h, err := format.ParseHeader(record.Bytes); err == nil && len(x.later) > 0 {
		record.Offset = x.later[writing{h.VersionID, h.Timestamp.Ticks}]
	}
	x.records = append(x.records, record)
}

func (x *round) read() error {
	for {
		record, err := x.source.Next()
		if errors.Is(err, io.EOF) {
			return x.store()
		}
		if err != nil {
			return errors.Join(err, x.store()) // what has come whole need not come again
		}
		if record.Large != nil { // its bytes come now
			if err := x.store(); err != nil {
				return err
			}
			x.add(record)
			if err := x.store(); err != nil {
				return err
			}
			x.source.Free()
			continue
		}
		x.add(record)
		x.bytes += len(record.Bytes)
		if len(x.records) == roundRecords || x.bytes >= roundBytes {
			if err := x.store(); err != nil {
				return err
			}
			x.source.Free()
		}
	}
}

func (x *round) store() error {
	if len(x.records) == 0 {
		return nil
	}
	results, err := x.replica.Import(x.records)
	clear(x.records)
	x.records, x.bytes = x.records[:0], 0
	if err != nil {
		return err
	}
	for i := range results {
		switch result := &results[i]; {
		case result.Err != nil:
			x.done.Refused++
			if x.done.Reason == "" {
				x.done.Reason = result.Err.Error()
			}
		case result.Stored:
			x.done.Stored++
		default:
			x.done.Known++
		}
	}
	return nil
}
