/** Components that draw again only when their properties change. */
import { Component, createElement, type ComponentType, type RenderableProps } from "preact";

export function memo<P extends object>(inner: ComponentType<P>): ComponentType<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: RenderableProps<P>) {
      const before = this.props as Record<string, unknown>;
      const after = next as Record<string, unknown>;
      return Object.keys({ ...before, ...after }).some((k) => before[k] !== after[k]);
    }
    override render(props: RenderableProps<P>) {
      return createElement(inner as ComponentType<object>, props);
    }
  }
  return Memo as unknown as ComponentType<P>;
}
