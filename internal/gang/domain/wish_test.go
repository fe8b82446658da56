package domain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	t.Parallel()
	rack, clique := Key{Label: "topology.example.com/rack"}, Key{Attribute: "gpu.example.com/clique"}
	tests := map[string]struct {
		annotations map[string]string
		want        Wish
		err         []string // parts of the error
	}{
		"none":                         {},
		"others":                       {annotations: map[string]string{"example.com/required-domain": "label=rack"}},
		"label required":               {annotations: map[string]string{RequiredAnnotation: "label=topology.example.com/rack"}, want: Wish{Key: rack, Required: true}},
		"label preferred":              {annotations: map[string]string{PreferredAnnotation: "label=topology.example.com/rack"}, want: Wish{Key: rack}},
		"attribute required":           {annotations: map[string]string{RequiredAnnotation: "attribute=gpu.example.com/clique"}, want: Wish{Key: clique, Required: true}},
		"attribute preferred":          {annotations: map[string]string{PreferredAnnotation: "attribute=gpu.example.com/clique"}, want: Wish{Key: clique}},
		"label without prefix":         {annotations: map[string]string{RequiredAnnotation: "label=rack"}, want: Wish{Key: Key{Label: "rack"}, Required: true}},
		"attribute with capitals":      {annotations: map[string]string{RequiredAnnotation: "attribute=GPU.example.com/_Clique2"}, want: Wish{Key: Key{Attribute: "GPU.example.com/_Clique2"}, Required: true}},
		"both":                         {annotations: map[string]string{RequiredAnnotation: "label=rack", PreferredAnnotation: "label=row"}, err: []string{RequiredAnnotation + ` ("label=rack")`, PreferredAnnotation + ` ("label=row")`, "remove one"}},
		"both, one of them empty":      {annotations: map[string]string{RequiredAnnotation: "", PreferredAnnotation: "label=row"}, err: []string{"remove one"}},
		"empty":                        {annotations: map[string]string{RequiredAnnotation: ""}, err: []string{RequiredAnnotation + ` of the PodGroup is ""`, "neither form"}},
		"neither form":                 {annotations: map[string]string{PreferredAnnotation: "rack"}, err: []string{PreferredAnnotation + ` of the PodGroup is "rack"`, "neither form"}},
		"spaces":                       {annotations: map[string]string{RequiredAnnotation: "label= rack"}, err: []string{`" rack" is no key of a label`}},
		"no label":                     {annotations: map[string]string{RequiredAnnotation: "label="}, err: []string{`"" is no key of a label`}},
		"label with a value":           {annotations: map[string]string{RequiredAnnotation: "label=rack=7"}, err: []string{`"rack=7" is no key of a label`}},
		"attribute without domain":     {annotations: map[string]string{RequiredAnnotation: "attribute=clique"}, err: []string{`"clique" is without the domain`, "driver's name"}},
		"attribute with empty domain":  {annotations: map[string]string{RequiredAnnotation: "attribute=/clique"}, err: []string{`"" before the slash is no domain`}},
		"attribute with a wrong one":   {annotations: map[string]string{RequiredAnnotation: "attribute=gpu_example/clique"}, err: []string{`"gpu_example" before the slash is no domain`}},
		"attribute with a long domain": {annotations: map[string]string{RequiredAnnotation: "attribute=" + strings.Repeat("d", 64) + "/clique"}, err: []string{"64 characters", "may have 63"}},
		"attribute without name":       {annotations: map[string]string{RequiredAnnotation: "attribute=gpu.example.com/"}, err: []string{`"" after the slash`}},
		"attribute with a wrong name":  {annotations: map[string]string{RequiredAnnotation: "attribute=gpu.example.com/a/b"}, err: []string{`"a/b" after the slash`}},
		"attribute with a long name":   {annotations: map[string]string{RequiredAnnotation: "attribute=gpu.example.com/" + strings.Repeat("i", 33)}, err: []string{"33 characters", "may have 32"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wish, err := Of(test.annotations)
			require.Equal(t, test.want, wish)
			if test.err == nil {
				require.NoError(t, err)
				if key := wish.Key; !key.IsZero() {
					require.Contains(t, test.annotations, annotationOf(wish))
					require.Equal(t, test.annotations[annotationOf(wish)], key.String())
				}
				return
			}
			for _, part := range test.err {
				require.ErrorContains(t, err, part)
			}
			if !strings.HasPrefix(name, "both") {
				require.ErrorContains(t, err, `"label=topology.example.com/rack"`)
				require.ErrorContains(t, err, `"attribute=gpu.example.com/clique"`)
			}
		})
	}
	require.Empty(t, Key{}.String())
}

func annotationOf(w Wish) string {
	if w.Required {
		return RequiredAnnotation
	}
	return PreferredAnnotation
}
