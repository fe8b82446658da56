package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*options)
		want   string
	}{
		"as it is":                           {func(*options) {}, ""},
		"as many devices as pods":            {func(o *options) { o.claims = 1000 }, ""},
		"fewer devices than pods":            {func(o *options) { o.claims = 1001 }, "2000 pods"},
		"fewer devices than pods that wait":  {func(o *options) { o.pods, o.claims = 10, 2501 }, "500 pods"},
		"more devices than a slice can hold": {func(o *options) { o.devices = 129 }, "at most 128"},
		"no rounds":                          {func(o *options) { o.rounds = 0 }, "-rounds 0"},
		"no pods":                            {func(o *options) { o.pods = 0 }, "-pods 0"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options{nodes: 300, devices: 10, claims: 500, pods: 2000, rounds: 1}
			test.change(&o)
			err := o.check()
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}
