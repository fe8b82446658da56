// Package realslices has ResourceSlices as real drivers publish them. README.md says where each file comes from.
package realslices

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

//go:embed *.json
var files embed.FS

// OnNode returns the slices of a file, as drivers would publish them on a node with the given name: slices and pools
// have the node's name. The file is named without its ending. A file that does not exist is an error of the caller.
func OnNode(file, node string) []*resourceapi.ResourceSlice {
	text, err := files.ReadFile(file + ".json")
	if err != nil {
		panic(fmt.Sprintf("read slices: %v", err))
	}
	var list resourceapi.ResourceSliceList
	if err := json.Unmarshal(text, &list); err != nil {
		panic(fmt.Sprintf("read slices of %s: %v", file, err))
	}
	slices := make([]*resourceapi.ResourceSlice, len(list.Items))
	for i := range list.Items {
		slice := &list.Items[i]
		published := *slice.Spec.NodeName
		slice.Name = strings.Replace(slice.Name, published, node, 1)
		slice.Spec.NodeName, slice.Spec.Pool.Name = &node, node
		slices[i] = slice
	}
	return slices
}
