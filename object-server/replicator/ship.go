package replicator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"martlet/object-server/bundle"
	"martlet/object-server/grid"
	"martlet/object-server/replicator/wire"
)

// shipment is what became of records that were sent.
type shipment struct {
	done  wire.Imported
	end   bundle.Exported // of the sender
	bytes int64
}

// isWhole tells whether the receiver has all that the sender had to give.
func (s *shipment) isWhole() bool { return s.done.Refused == 0 && s.end.Skipped == 0 }

// ship sends the records of an export to another server, at the rate that is allowed.
func (r *Replicator) ship(ctx context.Context, from *remote, q wire.ExportRequest, to *remote) (s shipment, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends both streams
	defer cancel()
	source, err := r.recordsOf(ctx, from, &q)
	if err != nil {
		return s, err
	}
	defer source.Close()
	place := to.partition(q.Partition.Number)
	target, err := to.open(ctx, wire.NameImport, &place)
	if err != nil {
		return s, err
	}
	defer target.Cancel()
	in := &paced{records: source, ctx: ctx, limiter: r.rate}
	err = forward(target, in)
	if s.bytes = in.bytes; err != nil {
		return s, fmt.Errorf("%s to %s: %w", from, to, err)
	}
	s.end = in.End()
	answer, err := target.Receive()
	if err == nil {
		_, err = s.done.UnmarshalMsg(answer)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", to, err)
	}
	return s, nil
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
