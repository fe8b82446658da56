// Package examples embeds the manifests of this folder for the demo of the playground, which schedules all of them.
package examples

import "embed"

// Files are the manifests.
//
//go:embed *.yaml
var Files embed.FS
