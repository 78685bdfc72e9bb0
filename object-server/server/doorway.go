package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"martlet/object-server/grid"
	"martlet/object-server/grid/auth"
	"martlet/object-server/grid/frame"
	"martlet/object-server/server/conf"
)

// gridPath is where other servers open a connection of the grid.
const gridPath = "/grid"

// doorway has the connections of the grid, and the secrets by which they are made.
type doorway struct {
	secrets *auth.Secrets
	grid    *grid.Grid
}

func newDoorway(config *conf.Config, mux *grid.Mux, logger *slog.Logger) doorway {
	secrets := &auth.Secrets{}
	options := frame.Defaults()
	options.Name, options.Checksum = "object server "+config.BindIP, config.Grid.Checksum
	connections, err := grid.New(grid.Config{Secrets: secrets, Options: options, Mux: mux, Log: logger})
	if err != nil {
		panic(err) // the defaults are within their bounds
	}
	d := doorway{secrets, connections}
	d.reload(&config.Grid)
	return d
}

// reload applies new secrets. Connections that have been proved stay.
func (d *doorway) reload(config *conf.Grid) {
	d.secrets.Use(config.Secrets)
}

// ReloadGrid applies grid_secret and grid_secret_previous of a configuration.
func (s *Server) ReloadGrid(config *conf.Config) { s.door.reload(&config.Grid) }

// enter serves what comes over HTTP. A connection of the grid does not count as a client.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == gridPath {
		s.door.grid.ServeHTTP(w, r)
		return
	}
	s.bounded(w, r)
}

// connected prepares a connection.
func (s *Server) connected(ctx context.Context, connection net.Conn) context.Context {
	boundUnsent(connection)
	return ctx
}

// figures are those of /recon/grid.
func (d *doorway) figures() grid.Stats { return d.grid.Stats() }
