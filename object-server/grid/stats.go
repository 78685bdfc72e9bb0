package grid

import (
	"log/slog"
	"sync/atomic"
)

// Refusal is a reason for which a handshake fails.
type Refusal string

// The reasons of refused handshakes.
const (
	RefusedRequest  Refusal = "request"    // not an upgrade to the grid's protocol
	RefusedCrowded  Refusal = "crowded"    // too many connections without proof
	RefusedSecret   Refusal = "secret"     // no secret fits
	RefusedProof    Refusal = "proof"      // the proof is wrong
	RefusedFrame    Refusal = "frame"      // not the frame that must come
	RefusedTimeout  Refusal = "timeout"    // the handshake took too long, or the connection ended
	RefusedByPeer   Refusal = "peer"       // the other side refused
	RefusedDraining Refusal = "going_away" // this side is about to stop
)

// Refusals are all of them, in the order of Stats.
var Refusals = [...]Refusal{
	RefusedRequest, RefusedCrowded, RefusedSecret, RefusedProof, RefusedFrame, RefusedTimeout, RefusedByPeer, RefusedDraining,
}

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
	for i, reason := range Refusals {
		s.Refused[reason] = c.refused[i].Load()
	}
	return s
}

// refuse counts a failed handshake and says so in the log.
func (g *Grid) refuse(reason Refusal, peer string, cause error) {
	for i := range Refusals {
		if Refusals[i] == reason {
			g.counters.refused[i].Add(1)
		}
	}
	g.quiet.Warn(g.config.Log, g.config.Clock.Now(), "refused "+string(reason), "grid: a handshake failed",
		slog.String("peer", peer), slog.String("reason", string(reason)), slog.Any("error", cause))
}
