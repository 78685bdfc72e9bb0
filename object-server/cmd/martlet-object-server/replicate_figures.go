package main

import (
	"log/slog"

	"martlet/object-server/reconcache"
	"martlet/object-server/replicator"
)

// passFigures writes the figures of passes for GET /recon/replication/object.
type passFigures struct {
	directory string
	logger    *slog.Logger
	failed    string // the error that is in the log already
}

func (p *passFigures) write(r *replicator.Replicator) {
	text := ""
	if figures := r.Figures(); len(figures) > 0 {
		if err := reconcache.Update(p.directory, "object", figures); err != nil {
			text = err.Error()
		}
	}
	if text != "" && text != p.failed {
		p.logger.Warn("figures for recon cannot be written", "recon_cache_path", p.directory, "error", text)
	}
	p.failed = text
}
