package grid

import (
	"context"
	"log/slog"
	"net"
	"time"

	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/frame"
)

// Config is what a Grid needs to know. Zero values stand for the defaults that the comments name.
type Config struct {
	Secrets *auth.Secrets // required
	Options frame.Options // what peers may ask of this side; zero: frame.Defaults. Options.Name is this server's name
	Mux     *Mux          // handlers; nil: none
	Log     *slog.Logger  // nil: slog.Default()
	Clock   Clock         // nil: the system's; of deadlines, liveness and backoff

	HandshakeTimeout time.Duration // for dialling or upgrading, and the proofs; 10 s
	PingAfter        time.Duration // silence until PING; 5 s
	DeadAfter        time.Duration // silence until the connection ends; 15 s
	BackoffMin       time.Duration // pause after a failed dial, doubled by each further one; 100 ms
	BackoffMax       time.Duration // 5 s
	HandshakesMax    int           // connections to us whose peer has not proved itself; 256
	WorkersMax       int           // goroutines that run handlers of requests, for all connections; 4,096

	// AnswersMax is how many bytes of answers may wait to be written to a connection before it begins no further
	// requests; 4 MiB.
	AnswersMax int

	// Dial makes a TCP or TLS connection; nil: TCP by the system.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func orDefault[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

func (c *Config) complete() {
	if (c.Options == frame.Options{Name: c.Options.Name, Checksum: c.Options.Checksum}) {
		name, checksum := c.Options.Name, c.Options.Checksum
		c.Options = frame.Defaults()
		c.Options.Name, c.Options.Checksum = name, checksum
	}
	orDefault(&c.Mux, &Mux{})
	orDefault(&c.Log, slog.Default())
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	orDefault(&c.HandshakeTimeout, 10*time.Second)
	orDefault(&c.PingAfter, 5*time.Second)
	orDefault(&c.DeadAfter, 15*time.Second)
	orDefault(&c.BackoffMin, 100*time.Millisecond)
	orDefault(&c.BackoffMax, 5*time.Second)
	orDefault(&c.HandshakesMax, 256)
	orDefault(&c.WorkersMax, 4096)
	orDefault(&c.AnswersMax, 4<<20)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
}
