package grid

import (
	"log/slog"
	"slices"
	"sync/atomic"
)

// Refusal is a kind of failed handshake; doc/formats/grid.md, "Kinds of refusal".
type Refusal string

// The kinds of failed handshakes, the same as those of martlet/grid.
const (
	RefusedBadUpgrade  Refusal = "bad_upgrade"   // not an upgrade to the grid's protocol
	RefusedTooMany     Refusal = "too_many"      // too many connections without proof
	RefusedNoKey       Refusal = "no_key"        // one side has a secret and the other has none, or sends no proof
	RefusedNoCommonKey Refusal = "no_common_key" // no secret fits
	RefusedWrongProof  Refusal = "wrong_proof"   // the proof is wrong
	RefusedMalformed   Refusal = "malformed"     // not a message of this protocol, or a large one
	RefusedOutOfOrder  Refusal = "out_of_order"  // not the frame that must come
	RefusedTooSlow     Refusal = "too_slow"      // the handshake took too long
	RefusedLost        Refusal = "lost"          // the connection ended
	RefusedByPeer      Refusal = "by_peer"       // the other side refused
)

// Refusals are all of them, in the order of Stats.
var Refusals = [...]Refusal{
	RefusedBadUpgrade, RefusedTooMany, RefusedNoKey, RefusedNoCommonKey, RefusedWrongProof, RefusedMalformed,
	RefusedOutOfOrder, RefusedTooSlow, RefusedLost, RefusedByPeer,
}

// WithoutSecret are the kinds of those that do not have the secret. The others are of ill connections and programs.
var WithoutSecret = [...]Refusal{RefusedNoKey, RefusedNoCommonKey, RefusedWrongProof, RefusedByPeer}

// Stats are counts since the start, and what is open now.
type Stats struct {
	Connections    int64             `json:"connections"` // open now, after their handshake
	Handshakes     int64             `json:"handshakes"`  // that succeeded
	Refused        map[Refusal]int64 `json:"refused"`
	ProtocolErrors int64             `json:"protocol_errors"` // connections that ended because the peer broke a rule
	Lost           int64             `json:"lost"`            // connections that ended otherwise, and not by Close
	Sent           int64             `json:"sent"`            // requests to peers
	Served         int64             `json:"served"`          // requests of peers that were begun
	ServedBusy     int64             `json:"served_busy"`     // requests and streams of peers that were refused by a limit
	StreamsOpened  int64             `json:"streams_opened"`  // to peers
	StreamsServed  int64             `json:"streams_served"`  // of peers
	HandlerPanics  int64             `json:"handler_panics"`
	MessagesIn     int64             `json:"messages_in"`
	MessagesOut    int64             `json:"messages_out"`
	FramesOut      int64             `json:"frames_out"`
}

// Plus returns the sums of both: the figures of a server with two Grids.
func (s Stats) Plus(other Stats) Stats {
	refused := map[Refusal]int64{}
	for _, kind := range Refusals {
		refused[kind] = s.Refused[kind] + other.Refused[kind]
	}
	return Stats{
		Connections: s.Connections + other.Connections, Handshakes: s.Handshakes + other.Handshakes, Refused: refused,
		ProtocolErrors: s.ProtocolErrors + other.ProtocolErrors, Lost: s.Lost + other.Lost, Sent: s.Sent + other.Sent,
		Served: s.Served + other.Served, ServedBusy: s.ServedBusy + other.ServedBusy,
		StreamsOpened: s.StreamsOpened + other.StreamsOpened, StreamsServed: s.StreamsServed + other.StreamsServed,
		HandlerPanics: s.HandlerPanics + other.HandlerPanics, MessagesIn: s.MessagesIn + other.MessagesIn,
		MessagesOut: s.MessagesOut + other.MessagesOut, FramesOut: s.FramesOut + other.FramesOut,
	}
}

type counters struct {
	connections, handshakes, protocolErrors, lost, sent, served, busy, opened, streams, panics atomic.Int64
	messagesIn, messagesOut, framesOut                                                         atomic.Int64

	refused [len(Refusals)]atomic.Int64
}

// Stats returns the counts of this Grid.
func (g *Grid) Stats() Stats {
	c := &g.counters
	s := Stats{
		Connections: c.connections.Load(), Handshakes: c.handshakes.Load(), Refused: map[Refusal]int64{},
		ProtocolErrors: c.protocolErrors.Load(), Lost: c.lost.Load(), Sent: c.sent.Load(), Served: c.served.Load(),
		ServedBusy: c.busy.Load(), StreamsOpened: c.opened.Load(), StreamsServed: c.streams.Load(),
		HandlerPanics: c.panics.Load(), MessagesIn: c.messagesIn.Load(), MessagesOut: c.messagesOut.Load(),
		FramesOut: c.framesOut.Load(),
	}
	for i, kind := range Refusals {
		s.Refused[kind] = c.refused[i].Load()
	}
	return s
}

// refuse counts a failed handshake and says so in the log.
func (g *Grid) refuse(kind Refusal, peer string, cause error) {
	g.counters.refused[slices.Index(Refusals[:], kind)].Add(1)
	g.quiet.Warn(g.config.Log, g.config.Clock.Now(), "refused "+string(kind), "grid: a handshake failed",
		slog.String("peer", peer), slog.String("kind", string(kind)), slog.Any("error", cause))
}
