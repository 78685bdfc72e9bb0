package server

import (
	"context"
	"errors"
	"time"

	"martlet/object-server/device"
	"martlet/object-server/server/devices"
	"martlet/object-server/server/marker"
	"martlet/object-server/server/metrics"
	"martlet/object-server/server/recon"
	"martlet/object-server/server/relink"
	"martlet/object-server/updates"
	"martlet/object-server/vfs"
)

// opener returns the function that opens a device: check its marker, open its bundles, take the steps of the relinker
// that it missed, and begin to deliver the container updates that wait on it.
func (s *Server) opener(options device.Options) openFunc {
	marks := marker.New(s.config.HashPrefix, s.config.HashSuffix, s.config.MountCheck, s.logger)
	return func(path string) (devices.Store, *updates.Pending, error) {
		fileSystem, err := vfs.OpenBelow(path)
		if err != nil {
			return nil, nil, err
		}
		if err := marks.Check(path); err != nil {
			return nil, nil, errors.Join(err, fileSystem.Close())
		}
		opened, err := device.Open(fileSystem, path, options)
		if err != nil {
			return nil, nil, errors.Join(err, fileSystem.Close())
		}
		s.relinker.Prepare(opened, path)
		pending, err := s.attach(fileSystem, path, opened, options.ReclaimAge)
		if err != nil {
			return nil, nil, errors.Join(err, opened.Close(), fileSystem.Close())
		}
		return devices.NewStore(opened, fileSystem), pending, nil
	}
}

// attach begins to deliver the container updates that wait on a device, and those that a crash has left out.
func (s *Server) attach(
	files vfs.FS, path string, opened *device.Device, reclaimAge time.Duration,
) (*updates.Pending, error) {
	pending, err := s.updater.Attach(files, path)
	if err != nil {
		return nil, err
	}
	pending.OnUnsaved(opened.OweRows)
	opened.AskForLostRows(pending.MayHaveLost)
	unreported := opened.Unreported()
	pending.Go(func(ctx context.Context) {
		if unreported != nil {
			s.report(ctx, path, unreported, pending, reclaimAge)
		}
		s.mendRows(ctx, path, opened, pending, reclaimAge)
	})
	pending.Go(func(ctx context.Context) { s.noteRows(ctx, path, opened, pending) })
	return pending, nil
}

type openFunc func(path string) (devices.Store, *updates.Pending, error)

// use makes the server open its devices by open. wait is as in devices.Options.
func (s *Server) use(open openFunc, wait time.Duration) {
	s.devices = devices.New(devices.Options{
		Root: s.config.Devices, MountCheck: s.config.MountCheck, Logger: s.logger, Wait: wait, Open: open,
	})
	s.replicas.Devices = s.devices
	s.reporter = recon.New(s.version, s.config.Devices, s.config.SwiftDir, s.config.ReconCachePath, s.devices)
	s.metrics = metrics.New(metrics.Source{Version: s.version, Reporter: s.reporter, Own: s.ownFigures})
	s.relinker = relink.New(s.config.SwiftDir, s.config.Policies, s.devices, s.logger)
}
