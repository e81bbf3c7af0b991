import { render } from "preact";
import { rememberedTheme } from "../common/colours";
import { App } from "./app";

rememberedTheme();
render(<App />, document.getElementById("app")!);
