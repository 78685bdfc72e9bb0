package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/certs"
	"martlet/object-server/grid/frame"
	"martlet/object-server/grid/login"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/metrics"
)

// gridPath is where other servers open a connection of the grid.
const gridPath = "/grid"

// doorway is how requests come in: over connections of the grid, or over HTTP past a gate.
type doorway struct {
	secrets  *auth.Secrets
	grid     *grid.Grid // accepts
	outgoing *grid.Grid // connects; it ends later, because requests that are served send others
	gate     *login.Gate
	certs    *certs.Store // nil: no TLS
}

func newDoorway(config *conf.Config, store *certs.Store, mux *grid.Mux, logger *slog.Logger) doorway {
	secrets := &auth.Secrets{}
	options := frame.Defaults()
	options.Name, options.Checksum = "object server "+config.BindIP, config.Grid.Checksum
	settings := grid.Config{Secrets: secrets, Options: options, Log: logger}
	if store != nil { // without secrets, since the grid has its own proof
		settings.Dial = (&login.Dialer{TLS: store, Plain: config.Grid.PlainHTTP}).DialContext
	}
	open := func(mux *grid.Mux) *grid.Grid {
		settings.Mux = mux
		connections, err := grid.New(settings)
		if err != nil {
			panic(err) // the defaults are within their bounds
		}
		return connections
	}
	d := doorway{secrets, open(mux), open(nil), &login.Gate{Secrets: secrets, Log: logger, IsOpen: isOpen}, store}
	d.reload(&config.Grid)
	return d
}

// dialer makes connections of plain HTTP to other servers of the cluster.
func (d *doorway) dialer(config *conf.Config) *login.Dialer {
	return &login.Dialer{
		Secrets: d.secrets, TLS: d.certs, Plain: config.Grid.PlainHTTP, Base: net.Dialer{Timeout: config.ConnTimeout},
	}
}

// reload applies new secrets and addresses, and checksums for new connections. Connections that have been proved stay.
func (d *doorway) reload(config *conf.Grid) {
	d.secrets.Use(config.Secrets)
	d.grid.UseChecksum(config.Checksum)
	d.outgoing.UseChecksum(config.Checksum)
	d.gate.SetPlain(config.PlainHTTP)
}

// ReloadGrid applies grid_secret, grid_secret_previous, grid_plain_http and grid_checksum of a configuration, and reads
// the files of TLS anew. After an error TLS stays as it was.
func (s *Server) ReloadGrid(config *conf.Config) error {
	s.door.reload(&config.Grid)
	return s.door.certs.Reload(config.Grid.TLS)
}

// listen lets the connections of a listener speak TLS if there is a certificate.
func (d *doorway) listen(listener net.Listener) net.Listener {
	if d.certs == nil {
		return listener
	}
	return d.certs.Listen(listener)
}

// isOpen reports whether a request needs no proof: monitoring asks these.
func isOpen(r *http.Request) bool {
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	return r.Method == http.MethodOptions || r.URL.Path == "/healthcheck" ||
		isRead && strings.HasPrefix(r.URL.Path, "/recon/")
}

// enter serves what comes over HTTP. Connections of the grid and logins do not count as clients.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case metrics.Path:
		if s.mayScrape(r) {
			s.metrics.ServeHTTP(w, r)
		} else if s.door.gate.Admit(w, r) {
			s.bounded(w, r)
		}
	case gridPath:
		s.door.grid.ServeHTTP(w, r)
	case login.Path:
		s.door.gate.ServeHTTP(w, r)
	default:
		if s.door.gate.Admit(w, r) {
			s.bounded(w, r)
		}
	}
}

// connected prepares a connection.
func (s *Server) connected(ctx context.Context, connection net.Conn) context.Context {
	boundUnsent(connection)
	return s.door.gate.ConnContext(ctx)
}

// gridFigures are those of /recon/grid: of connections that come, and of those that this server makes.
type gridFigures struct {
	grid.Stats
	RefusedHTTP int64 `json:"refused_http"` // requests and logins over HTTP without proof
}

func (d *doorway) figures() gridFigures {
	return gridFigures{d.grid.Stats().Plus(d.outgoing.Stats()), d.gate.Refused()}
}

// refused counts requests and connections without the secret that came to this server.
func (d *doorway) refused() int64 {
	count, refused := d.gate.Refused(), d.grid.Stats().Refused
	for _, kind := range grid.WithoutSecret {
		count += refused[kind]
	}
	return count
}
