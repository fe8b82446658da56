package main

import (
	"fmt"
	"strings"
)

const (
	plotLeft, plotTop     = 60, 20
	plotWidth, plotHeight = 560, 320
	fromAsked, toAsked    = 80, 130
	fromGot, toGot        = 78, 98
)

// draw returns an SVG of the allocated capacity over the requested capacity, for the trace with seed
// 42.
func draw() string {
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		plotLeft+plotWidth+150, plotTop+plotHeight+50)
	svg.WriteString("<title>GPU capacity allocated over GPU capacity asked for, by policy</title>\n")
	svg.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for asked := fromAsked; asked <= toAsked; asked += 10 {
		fmt.Fprintf(&svg, `<text x="%.0f" y="%d" text-anchor="middle">%d</text>`+"\n", plotX(asked), plotTop+plotHeight+18, asked)
	}
	for got := fromGot; got <= toGot; got += 4 {
		y := plotY(float64(got))
		fmt.Fprintf(&svg, `<line x1="%d" x2="%d" y1="%.0f" y2="%.0f" stroke="#ddd"/>`+"\n", plotLeft, plotLeft+plotWidth, y, y)
		fmt.Fprintf(&svg, `<text x="%d" y="%.0f" text-anchor="end">%d</text>`+"\n", plotLeft-8, y+4, got)
	}
	fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="middle">GPU capacity asked for, %%</text>`+"\n", plotLeft+plotWidth/2, plotTop+plotHeight+38)
	fmt.Fprintf(&svg, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">allocated, %%</text>`+"\n", plotTop+plotHeight/2)
	colours := []string{"#999", "#c60", "#080", "#06c", "#c00"}
	for i, p := range players[:len(colours)] {
		c := p.play(&variants[0], *scale, 42)
		var points []string
		for asked := fromAsked; asked <= toAsked; asked++ {
			if c[asked] >= fromGot {
				points = append(points, fmt.Sprintf("%.1f,%.1f", plotX(asked), plotY(c[asked])))
			}
		}
		fmt.Fprintf(&svg, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colours[i], strings.Join(points, " "))
		y := plotTop + plotHeight - 20*(len(colours)-i)
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="%s">%s %.1f %%</text>`+"\n", plotLeft+plotWidth+10, y, colours[i], p.name, c[toAsked])
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

func plotX(asked int) float64 {
	return plotLeft + plotWidth*float64(asked-fromAsked)/(toAsked-fromAsked)
}

func plotY(got float64) float64 {
	return plotTop + plotHeight*(toGot-got)/(toGot-fromGot)
}
