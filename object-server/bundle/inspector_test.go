package bundle_test

import (
	"martlet/object-server/bundle"
	"martlet/object-server/bundle/inspect"
)

func init() {
	bundle.InspectVerify = func(files *bundle.Files, id bundle.ID) ([]bundle.Damage, error) {
		v, err := inspect.Verify(files, id, "")
		if err != nil {
			return nil, err
		}
		return v.Damages, nil
	}
	bundle.InspectRepair = func(files *bundle.Files, id bundle.ID, quarantine string) ([]bundle.Damage, error) {
		r, err := inspect.PlanRepair(files, id)
		if err != nil {
			return nil, err
		}
		return r.Damages, r.Run(quarantine)
	}
}
