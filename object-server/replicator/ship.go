package replicator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/bundle/format"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// shipment is what became of records that were sent.
type shipment struct {
	done   wire.Imported
	end    bundle.Exported // of the sender
	bundle format.Identity // of the receiver
	bytes  int64
}

// isWhole tells whether the receiver has all that the sender had to give.
func (s *shipment) isWhole() bool { return s.done.Refused == 0 && s.end.Skipped == 0 }

// ship sends the records of an export to another server, at the rate that is allowed.
func (r *Replicator) ship(ctx context.Context, from *remote, q wire.ExportRequest, to *remote) (s shipment, err error) {
	w := newWatch(ctx, r.config.NodeTimeout)
	defer w.end() // ends both streams
	defer func() { err = w.cause(err) }()
	source, err := r.watchedRecords(w, from, &q)
	if err != nil {
		return s, err
	}
	defer source.Close()
	place := to.partition(q.Partition.Number)
	opened := w.begin()
	target, err := to.open(w.ctx, wire.NameImport, &place)
	if opened(); err != nil {
		return s, err
	}
	defer target.Cancel()
	in := &paced{records: source, ctx: w.ctx, limiter: r.rate}
	err = forward(&watchedWriter{target, w}, in)
	if s.bytes = in.bytes; err != nil {
		return s, fmt.Errorf("%s to %s: %w", from, to, err)
	}
	s.end = in.End()
	defer w.begin()()
	answer, err := target.Receive()
	if err == nil {
		_, err = s.done.UnmarshalMsg(answer)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", to, err)
	}
	copy(s.bundle[:], s.done.Bundle)
	return s, nil
}

// tryImport imports no record. It fails if another peer sends records of the partition.
func (s *remote) tryImport(ctx context.Context, partition uint32) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	place := s.partition(partition)
	stream, err := s.open(ctx, wire.NameImport, &place)
	if err != nil {
		return err
	}
	defer stream.Cancel()
	if err = wire.WriteEnd(stream, bundle.Exported{}); err == nil {
		_, err = stream.Receive()
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", s, wire.NameImport, err)
	}
	return nil
}

// watchedRecords begins an export, and watches it.
func (r *Replicator) watchedRecords(w *watch, from *remote, q *wire.ExportRequest) (records, error) {
	defer w.begin()()
	source, err := r.recordsOf(w.ctx, from, q)
	if err != nil {
		return nil, err
	}
	return &watchedRecords{source, w}, nil
}

// shipNames sends records of some names, with as many streams as it takes; of all names, if none are given.
func (r *Replicator) shipNames(ctx context.Context, from *remote, q wire.ExportRequest, hashes []byte, to *remote) (all shipment, err error) {
	for isFirst := true; err == nil && (isFirst || len(hashes) > 0); isFirst = false {
		n := min(len(hashes), r.namesAtOnce*wire.HashSize)
		q.Hashes, hashes = hashes[:n], hashes[n:]
		var one shipment
		one, err = r.ship(ctx, from, q, to)
		all.add(&one)
	}
	return all, err
}

// add adds what came of one more stream.
func (s *shipment) add(o *shipment) {
	s.done.Stored += o.done.Stored
	s.done.Known += o.done.Known
	s.done.Refused += o.done.Refused
	if s.done.Reason == "" {
		s.done.Reason = o.done.Reason
	}
	s.bytes += o.bytes
	s.end.Skipped += o.end.Skipped
	s.end.Position, s.bundle = o.end.Position, o.bundle
}

// forward copies records to a stream.
func forward(to io.Writer, from records) error {
	w := bufio.NewWriterSize(to, streamBuffer)
	for {
		record, err := from.Next()
		if errors.Is(err, io.EOF) {
			return errors.Join(wire.WriteEnd(w, from.End()), w.Flush())
		}
		if err == nil {
			err = wire.WriteRecord(w, record)
		}
		if err != nil {
			return err
		}
	}
}

func (s *remote) open(ctx context.Context, name string, q interface {
	MarshalMsg(b []byte) ([]byte, error)
}) (*grid.Stream, error) {
	payload, err := q.MarshalMsg(nil)
	if err != nil {
		return nil, err
	}
	stream, err := s.peer.Open(ctx, name, payload)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s, name, err)
	}
	return stream, nil
}
