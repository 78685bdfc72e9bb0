package server

import (
	"fmt"

	"martlet/object-server/grid/certs"
	"martlet/object-server/server/conf"
	"martlet/object-server/server/devices"
)

// Check reads all that a start reads: the configuration file at path, martlet.conf, the files of TLS and the directory of
// the devices. It opens no device and changes nothing.
func Check(path string) error {
	config, err := conf.Read(path)
	if err != nil {
		return err
	}
	if _, err := devices.New(devices.Options{Root: config.Devices}).Names(); err != nil {
		return fmt.Errorf("%s: the devices directory cannot be read: %w", path, err)
	}
	if _, err := certs.Load(config.Grid.TLS); err != nil {
		return fmt.Errorf("grid_tls_cert, grid_tls_key, grid_tls_ca: %w", err)
	}
	return nil
}
