package conf

import (
	"fmt"
	"path/filepath"
	"strings"

	"gopkg.in/ini.v1"

	"martlet/object-server/server/option"
)

// readSalt reads a salt byte by byte; as everywhere in Swift's file, "%%" stands for "%".
func readSalt(section *ini.Section, name string) (string, error) {
	value := strings.TrimSpace(section.Key(name).Value())
	plain := strings.ReplaceAll(value, "%%", "")
	if strings.Contains(plain, "%") {
		return "", fmt.Errorf("[swift-hash] %s: write %%%% for a %% sign", name)
	}
	return strings.ReplaceAll(value, "%%", "%"), nil
}

// readCluster reads what all servers of a cluster share.
func (c *Config) readCluster() error {
	c.Limits = defaultLimits()
	c.Policies = map[int]bool{0: true}
	file, err := option.Load(filepath.Join(c.SwiftDir, "martlet.conf"))
	if err != nil {
		return fmt.Errorf("martlet.conf cannot be read in swift_dir %s: %w", c.SwiftDir, err)
	}
	hash := file.Section("swift-hash")
	if c.HashPrefix, err = readSalt(hash, "swift_hash_path_prefix"); err != nil {
		return err
	}
	if c.HashSuffix, err = readSalt(hash, "swift_hash_path_suffix"); err != nil {
		return err
	}
	if c.HashPrefix == "" && c.HashSuffix == "" {
		return fmt.Errorf("%s has neither swift_hash_path_prefix nor swift_hash_path_suffix in [swift-hash]", c.SwiftDir)
	}
	for _, section := range file.Sections() {
		if rest, ok := strings.CutPrefix(section.Name(), "storage-policy:"); ok {
			index, err := option.ParseInteger(rest, 0, 1<<16)
			if err != nil {
				return fmt.Errorf("section [%s]: %w", section.Name(), err)
			}
			c.Policies[int(index)] = true
		}
	}
	if err := c.Grid.read(file.Section(gridSection)); err != nil {
		return err
	}
	return c.Limits.read(file.Section("swift-constraints"))
}
