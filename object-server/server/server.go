package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"martlet/object-server/grid/certs"
	"martlet/object-server/replicator/serve"
	"martlet/object-server/ring"
	"martlet/object-server/server/calls"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/descriptors"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/message"
	"martlet/object-server/server/metrics"
	"martlet/object-server/server/ratelimit"
	"martlet/object-server/server/recon"
	"martlet/object-server/server/relink"
	"martlet/object-server/server/versionid"
	"martlet/object-server/updates"
)

// Server answers requests for the objects on the devices of one host. It is an http.Handler, safe for concurrent use.
type Server struct {
	config   *conf.Config
	logger   *slog.Logger
	hasher   ring.Hasher
	allowed  allowedHeaders
	updater  *updates.Updater
	devices  *devices.Set
	version  string
	limiter  *ratelimit.Limiter // nil if there are no limits
	clients  clients
	unused   unused
	door     doorway
	replicas *serve.Replicas
	http     *http.Server

	conditions conditionLocks

	reporter *recon.Reporter
	metrics  *metrics.Metrics
	relinker *relink.Relinker

	stopKeeping func() // ends the watch over devices that are not open
}

// New opens the devices that are present and returns a server for them. Shutdown closes them.
func New(config *conf.Config, logger *slog.Logger, version string) (*Server, error) {
	names, err := devices.New(devices.Options{Root: config.Devices}).Names()
	if err != nil {
		return nil, fmt.Errorf("the devices directory cannot be read: %w", err)
	}
	options := config.Device
	options.Logger, options.KeptID, options.HiddenID = logger, versionid.OfNull, versionid.Hidden
	if options.OpenFilesMax, err = descriptors.Share(options.OpenFilesMax, config.MaxClients, len(names), logger); err != nil {
		return nil, err
	}
	store, err := certs.Load(config.Grid.TLS)
	if err != nil {
		return nil, fmt.Errorf("grid_tls_cert, grid_tls_key, grid_tls_ca: %w", err)
	}
	s := newServer(config, store, logger, version)
	s.use(s.opener(options), 0)
	if err := s.devices.OpenPresent(devices.StartWait); err != nil {
		s.updater.Close()
		return nil, err
	}
	keeping, stop := context.WithCancel(context.Background())
	s.stopKeeping = stop
	go s.devices.Keep(keeping)
	return s, nil
}

// newServer returns a server that cannot open devices yet.
func newServer(config *conf.Config, store *certs.Store, logger *slog.Logger, version string) *Server {
	hasher := ring.NewHasher(config.HashPrefix, config.HashSuffix)
	s := &Server{
		config: config, logger: logger, hasher: hasher, version: version,
		allowed:     newAllowedHeaders(config.AllowedHeaders),
		clients:     clients{make(chan struct{}, config.MaxClients)},
		limiter:     ratelimit.New(&config.Ratelimit, logger),
		replicas:    serve.New(),
		stopKeeping: func() {},
	}
	s.door = newDoorway(config, store, s.gridMux(), logger)
	s.updater = updates.New(updates.Options{
		UpdateTimeout: config.ContainerUpdateTimeout,
		BatchDelay:    config.ContainerUpdateDelay,
		ConnTimeout:   config.ConnTimeout,
		NodeTimeout:   config.NodeTimeout,
		RetryFirst:    time.Second,
		Interval:      config.UpdaterInterval,
		Placement:     updates.NewRingPlacement(&ring.Files{Directory: config.SwiftDir, Logger: logger}, hasher),
		Logger:        logger,
		Grid:          s.door.outgoing,
		Dial:          s.door.dialer(config).DialContext,
	})
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.enter),
		ConnState:         s.unused.note,
		ReadHeaderTimeout: config.ClientTimeout,
		WriteTimeout:      config.ClientTimeout, // for the start of the answer; longer bodies extend it
		IdleTimeout:       config.KeepaliveTimeout,
		ConnContext:       s.connected,
		MaxHeaderBytes:    config.Limits.HeaderBytesMax(),
		ErrorLog:          slog.NewLogLogger(newHandshakeLog(logger.Handler()), slog.LevelDebug),
	}
	return s
}

// unsentMax is how many bytes the kernel buffers for a connection before they can be sent. Without it a write to a slow
// client waits until a third of several megabytes are sent, which takes longer than the timeout.
const unsentMax = 2 * bufferBytes

func boundUnsent(connection net.Conn) {
	for { // through TLS
		outer, ok := connection.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		connection = outer.NetConn()
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { // fails only on a connection that is closed already
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentMax)
			})
		}
	}
}

// Serve answers requests on listener until Shutdown; it then returns nil.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.http.Serve(s.door.listen(listener)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// closeWait is how long devices have to close after the requests have ended, or their time is over.
const closeWait = 10 * time.Second

// Shutdown waits for the running requests until ctx ends, and closes the devices. Acknowledged data are never lost.
func (s *Server) Shutdown(ctx context.Context) error {
	s.unused.stop()
	s.stopKeeping()
	s.replicas.Stop()
	drained := make(chan error, 1)
	go func() { drained <- s.door.grid.Drain(ctx, "the server stops") }()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	err = errors.Join(err, <-drained)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	s.stopUpdates()
	return errors.Join(err, s.devices.Close(closing))
}

// stopUpdates ends the delivery of updates. A delivery that waits for a device without an answer is left; its updates
// stay on that device.
func (s *Server) stopUpdates() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.updater.Close()
		s.door.outgoing.Close()
	}()
	timer := time.NewTimer(calls.Wait)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
	}
}

// errAborted means that the answer is incomplete and the connection must be closed.
var errAborted = errors.New("answer incomplete")

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, r)
	defer s.endExchange(x)
	x.setReadDeadline(x.received.Add(s.config.ClientTimeout)) // for a body that net/http reads to skip it
	err := s.dispatch(x)
	switch {
	case err == nil:
	case errors.Is(err, errAborted):
		panic(http.ErrAbortHandler)
	default:
		x.answerFailure(failureOf(err))
	}
}

func (s *Server) dispatch(x *exchange) error {
	switch path := x.in.FullPath(); {
	case path == "/healthcheck":
		return s.healthcheck(x)
	case strings.HasPrefix(path, "/recon/"):
		return s.recon(x)
	case x.in.Method == http.MethodOptions:
		return s.whoAmI(x)
	}
	return s.serveObject(x)
}

// serveObject serves a request about one object.
func (s *Server) serveObject(x *exchange) error {
	if err := s.admit(x); err != nil {
		return err
	}
	handle := s.handler(x.in.Method)
	if handle == nil {
		return fail(http.StatusMethodNotAllowed, "The method is not allowed for this resource.").
			with("Allow", "DELETE, GET, HEAD, POST, PUT")
	}
	if err := s.parsePath(x); err != nil {
		return err
	}
	return handle(x)
}

func (s *Server) handler(method string) func(*exchange) error {
	switch method {
	case http.MethodPut:
		return s.put
	case http.MethodGet:
		return s.get
	case http.MethodHead:
		return s.head
	case http.MethodPost:
		return s.post
	case http.MethodDelete:
		return s.remove
	}
	return nil
}

// endExchange logs the request, and turns a panic of a handler into a 500 if no answer has begun.
func (s *Server) endExchange(x *exchange) {
	problem := recover()
	if problem != nil && problem != http.ErrAbortHandler {
		s.logPanic(x, problem)
		if x.status == 0 {
			x.answerFailure(fail(http.StatusInternalServerError, "Internal error."))
			problem = nil
		} else {
			problem = http.ErrAbortHandler
		}
	}
	s.logExchange(x)
	if problem != nil {
		panic(problem)
	}
}

func (s *Server) logPanic(x *exchange, problem any) {
	s.logger.Error("panic", "error", problem, "method", x.in.Method, "path", x.in.FullPath(),
		"txn", x.header(message.TransactionID), "stack", string(debug.Stack()))
}
